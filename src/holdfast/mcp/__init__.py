"""Question sets for any agent that speaks MCP: `holdfast mcp`, over standard input and output."""
