// The lines to the server on which feeds may stream.
//
// A browser allows six connections to one server over all its tabs, and a request that finds none
// waits for one without a word. So tabs share a few lines by locks, which end with their tab; the
// other connections are left to requests.

const LINES = 3;

/** A function that gives the line back; null while all are taken. */
export async function takeLine() {
  if (!navigator.locks) return null; // tabs of an insecure address cannot know of each other
  for (let number = 1; number <= LINES; number++) {
    const giveBack = await take(`holdfast-line-${number}`);
    if (giveBack) return giveBack;
  }
  return null;
}

function take(name) {
  return new Promise((resolve) => {
    const keep = (lock) => (lock ? new Promise((giveBack) => resolve(giveBack)) : resolve(null));
    navigator.locks.request(name, { ifAvailable: true }, keep);
  });
}
