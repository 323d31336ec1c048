/** Sweeps idempotency: each operation that takes a key is sent, loses its stored reply, and is sent again. */

import { beforeAll, describe, expect, test } from 'vitest'
import { replayed, send, simulateCrash } from '../support/clients/idempotency.ts'
import { createTestWorkspaceWithStorage as createTestWorkspace, unique } from '../support/fixtures/tenants.ts'
import { boundIn, KEPT, KEYED, writtenByTool } from './keyed-operations.ts'
import { createSweepResources, ROWS, type World } from './sweep-rows.ts'
import { RUN_COMMANDS } from './sweep-rows-flows.ts'

let world: World
beforeAll(async () => {
  world = await createSweepResources(await createTestWorkspace())
})

/**
 * Refused here: DNS has no proof of the host name, the workspace has its one MCP server, the execution has ended, the account was never accepted, and
 * the MCP version needs no approval; nothing was planned.
 */
const REFUSED = [
  'tenant.retry',
  'workspace.retry',
  'host.verify',
  'schema.apply',
  'mcp_server.create',
  'mcp_version.approve',
  'account.reset',
  'account.confirm',
  ...RUN_COMMANDS,
]

/** The id of the created resource. */
const made = (body: Record<string, unknown> | string) =>
  typeof body === 'string'
    ? body
    : (body['id'] ?? body['client_id'] ?? body['kid'] ?? body['run_id'] ?? writtenByTool(body))

describe.each(KEYED.map((operation) => [operation.name, operation] as const))(
  '%s with an idempotency key',
  (name, operation) => {
    test('repeated after a lost reply: created once or reported as made; later repeats return the stored reply', async () => {
      const { workspace } = world
      const as = operation.domain === 'data_access' ? workspace.service : workspace.operator
      const row = ROWS[name]
      const [key, path, body] = [unique('k'), row?.path(world) ?? '', row?.body?.(world)]
      const first = await send(operation.http.method, as, key, body, path)
      expect([name, first.status < 300 || REFUSED.includes(name)]).toEqual([name, true])
      if (name === 'mcp_server.call') expect(first.body).toMatchObject({ is_error: false })
      await simulateCrash(workspace, { ...boundIn(operation.http.path, path), ...(body as object) })
      const again = await send(operation.http.method, as, key, body, path)
      const isKept = KEPT.includes(name) && first.status < 300
      expect([name, replayed(again)]).toEqual([name, isKept ? 'true' : null])
      if (again.status < 300) expect([name, made(again.body)]).toEqual([name, made(first.body)])
      else expect([name, again.status === 409 || again.status === 429]).toEqual([name, true])
      if (again.status === 429) return
      const third = await send(operation.http.method, as, key, body, path)
      // Later repeats get the same refusal.
      if (again.body['code'] === 'idempotency_reply_lost')
        return expect([third.status, third.body['code']]).toEqual([409, 'idempotency_reply_lost'])
      expect([third.status, replayed(third), third.body]).toEqual([again.status, 'true', again.body])
    })
  },
)
