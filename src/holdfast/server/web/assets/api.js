// The public REST interface. A refusal is a Problem, whose message is the server's own sentence.

export class Problem extends Error {
  constructor(body, status) {
    super(body.detail ?? "The server did not say what is wrong.");
    this.status = status;
    this.code = body.code;
    this.retryAfter = body.retryAfter;
  }
}

/** The server cannot be reached: nothing was said about the request. */
export class Unreachable extends Error {
  constructor() {
    super(
      "The server cannot be reached. Start it again with `holdfast serve`; this page comes back by itself.",
    );
  }
}

async function request(method, path, body, headers = {}) {
  const options = { method, headers: { ...headers } };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Unreachable();
  }
  if (!response.ok) throw new Problem(await response.json().catch(() => ({})), response.status);
  return response;
}

const call = async (...asked) => (await request(...asked)).json().catch(() => ({}));

const query = (parameters) => {
  const given = Object.entries(parameters).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  return given.length ? `?${new URLSearchParams(given)}` : "";
};

export const get = (path, parameters = {}) => call("GET", path + query(parameters));
export const post = (path, body = {}) => call("POST", path, body);
export const patch = (path, body) => call("PATCH", path, body);
export const remove = (path, parameters = {}) => call("DELETE", path + query(parameters));

/** A payload as it is, whatever is in it. */
export const getText = async (path) => (await request("GET", path)).text();

/**
 * Give a model an instruction: the ids of its session and its turn, once that is open.
 *
 * It then goes on without us, and the change feed has what is said; a connection that waited for the
 * answer would be one of the six that a browser has.
 */
export async function execute(body) {
  const answer = await request("POST", "/api/ai/agent/execute", body, { Accept: "text/event-stream" });
  const events = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let heard = "";
  while (!heard.includes("\n\n")) {
    const { value, done } = await events.read();
    if (done) throw new Unreachable();
    heard += value;
  }
  events.cancel();
  return JSON.parse(heard.match(/^data: (.*)$/m)[1]);
}

/** Tell whoever serves a session what to do: an agent or a model. It is stored when this comes back. */
export const instruct = ({ id, agentContextId }, text) =>
  agentContextId
    ? execute({ sessionId: id, instruction: text })
    : post(`/api/sessions/${id}/prompt`, { text });
