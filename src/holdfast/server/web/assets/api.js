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
  constructor(
    sentence = "The server cannot be reached. Start it again with `holdfast serve`; this page comes back by itself.",
  ) {
    super(sentence);
  }
}

/** It took too long. */
export class Unanswered extends Unreachable {
  constructor(isReading) {
    const why = "The server did not answer in time. It has much to do, or this browser has too many windows of it.";
    super(isReading ? why : `${why} Look whether it was done before you do it again.`);
  }
}

const SECOND = 1000;
const READING = 30 * SECOND;
const DOING = 600 * SECOND; // an agent is started, or a model is asked

async function request(method, path, body, headers = {}) {
  const isReading = method === "GET";
  const limit = AbortSignal.timeout(isReading ? READING : DOING);
  const options = { method, headers: { "X-Holdfast-Page": "1", ...headers }, signal: limit };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw limit.aborted ? new Unanswered(isReading) : new Unreachable();
  }
  if (!response.ok) throw new Problem(await response.json().catch(() => ({})), response.status);
  return response;
}

async function textOf(...asked) {
  const response = await request(...asked);
  return response.text().catch(() => {
    throw new Unreachable();
  });
}

async function call(...asked) {
  const text = await textOf(...asked);
  return text ? JSON.parse(text) : {};
}

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
export const getText = (path) => textOf("GET", path);

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
