// What a newcomer can tell the demo agent. Lines that begin with one of its words are instructions.

export const SUGGESTIONS = [
  {
    label: "Ask me before it writes",
    sentence: "It wants to write a file, shows the change, and waits for your permission.",
    prompt: "Show me how permissions work.\nthink A small file is enough to show how permissions work.\nplan Write the file; Say what was done\nwrite hello.txt: Hello from your first session.\nsay Done. The file is in the repository, and everything that led to it is kept here.",
  },
  {
    label: "Run a command",
    sentence: "Its output is shown as it came, in a terminal.",
    prompt: "What is in this repository?\nrun git status --short --branch && ls -la\nsay That is what the repository looks like.",
  },
  {
    label: "Ask me a question",
    sentence: "It stops, and goes on with what you choose.",
    prompt: "Ask me something.\nask Which way shall I go? Left | Right | Straight on",
  },
  {
    label: "Talk for a while",
    sentence: "Watch it stream; stop it, or queue another prompt meanwhile.",
    prompt: "Count for a while.\nslow 120",
  },
];
