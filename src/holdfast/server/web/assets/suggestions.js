// What a newcomer can tell the demo agent. Lines that begin with one of its words are instructions.

const lines = (...instructions) => instructions.join("\n");

export const SUGGESTIONS = [
  {
    label: "Ask me before it writes",
    sentence: "It wants to write a file, shows the change, and waits for your permission.",
    prompt: lines(
      "Show me how permissions work.",
      "think A small file is enough to show how permissions work.",
      "plan Write the file; Say what was done",
      "write hello.txt: Hello from your first session.",
      "say Done. The file is in the repository, and everything that led to it is kept here.",
    ),
  },
  {
    label: "Run a command",
    sentence: "You are asked first. Its output is shown as it came, in a terminal.",
    prompt: lines(
      "What is in this repository?",
      "run git status --short --branch && ls -la",
      "say That is what the repository looks like.",
    ),
  },
  {
    label: "Ask me a question",
    sentence: "It stops, and goes on with what you choose.",
    prompt: lines("Ask me something.", "ask Which way shall I go? Left | Right | Straight on"),
  },
  {
    label: "Talk for a while",
    sentence: "Watch it stream; stop it, or queue another prompt meanwhile.",
    prompt: lines("Count for a while.", "slow 120"),
  },
];
