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

async function call(method, path, body) {
  const options = { method, headers: {} };
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
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(answer, response.status);
  return answer;
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
