// What is being written to an agent and was not sent: it outlives leaving the page and loading it again.

const nameOf = (sessionId) => `draft ${sessionId}`;

export const draftOf = (sessionId) => sessionStorage.getItem(nameOf(sessionId)) ?? "";

export const keepDraft = (sessionId, text) => sessionStorage.setItem(nameOf(sessionId), text);
