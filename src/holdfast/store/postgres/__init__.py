"""The engine to grow with: PostgreSQL through asyncpg, one writing connection with group commit."""
