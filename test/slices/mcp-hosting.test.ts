/** Hosted MCP servers: from a draft to calls by both generations of client, and back to an older version. */

import { expect, inject, test } from 'vitest'
import {
  aServer,
  askToken,
  callTool,
  legacy,
  modern,
  ok,
  rpc,
  scopesOf,
  serversOf,
  tokenFor,
} from '../support/mcp.ts'
import { aRoom, call } from '../support/tenants.ts'

test('created, curated, published, called: by REST and by both generations of client', async () => {
  const room = await aRoom()
  const hosted = await aServer(room, 'notes')
  const as = await tokenFor(hosted, scopesOf(hosted, 'notes_list', 'notes_get', 'notes_create'))
  for (const connect of [legacy, modern] as const) {
    const made = await connect(hosted.url, as, async (client) => {
      const { tools } = await client.listTools()
      expect(tools.map(({ name }) => name)).toEqual(['notes_create', 'notes_get', 'notes_list'])
      return client.callTool({ name: 'notes_create', arguments: { document: { text: connect.name } } })
    })
    expect(made.structuredContent).toMatchObject({ text: connect.name, _version: 1 })
  }
  const byRest = await ok(
    call('POST', `${hosted.base}/call`, { as: room.operator, body: { tool: 'notes_list', arguments: {} } }),
  )
  expect(byRest.is_error).toBe(false)
  expect(byRest.structured_content.data).toHaveLength(3)
})
