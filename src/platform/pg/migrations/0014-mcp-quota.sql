-- Hosted MCP servers count as a quota, one a workspace where nobody set it (resources/mcp/quota.ts).
call tenon.count_as('mcp_servers', 'tenon.mcp_servers');
