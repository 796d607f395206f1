// The list of sessions, kept up to date by the change feed.
const rows = new Map();
const table = document.getElementById("sessions");
const who = document.getElementById("who");

function show(session) {
  const row = rows.get(session.id) ?? table.tBodies[0].insertRow(0);
  rows.set(session.id, row);
  const shown = [session.name, session.agent, session.status, session.messageCount,
    new Date(session.updatedAt).toLocaleString()];
  row.replaceChildren(...shown.map((text) => {
    const cell = document.createElement("td");
    cell.textContent = text;
    return cell;
  }));
}

function follow() {
  const feed = new EventSource("/api/events");
  feed.addEventListener("sessions", async (event) => {
    const { sessions, deleted } = JSON.parse(event.data);
    sessions.forEach(show);
    deleted.forEach((id) => rows.get(id)?.remove());
  });
}

const me = await fetch("/api/me");
if (me.ok) {
  const { user, organization } = await me.json();
  who.textContent = `Signed in as ${user} of ${organization}.`;
  const { sessions } = await (await fetch("/api/sessions?order=updated&limit=100")).json();
  sessions.reverse().forEach(show);
  table.hidden = false;
  follow();
} else {
  who.textContent = "You are not signed in: open the address that `holdfast serve` printed, "
    + "or run `holdfast token link` for a new one.";
}
