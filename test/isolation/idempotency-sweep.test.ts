/** The sweep of keys: each operation that takes one is sent, cut off before its reply was kept, and sent again. */

import { beforeAll, describe, expect, test } from 'vitest'
import { takesKey } from '../../src/api/idempotency.ts'
import { OPERATIONS } from '../../src/features/index.ts'
import { cutOff, post, replayed } from '../support/clients/idempotency.ts'
import { aStoringRoom as aRoom, unique } from '../support/fixtures/tenants.ts'
import { furnish, ROWS, type World } from './sweep-rows.ts'
import { RUN_COMMANDS } from './sweep-rows-flows.ts'

let world: World
beforeAll(async () => {
  world = await furnish(await aRoom())
})

/** What has no id of ours, and is done twice where the process died between effect and reply (decision 4). */
const DOUBLED = ['flow_version.create', 'function.create', 'mcp_version.create']

/**
 * One MCP server is all that a workspace has, the execution of the sweep has ended, its account was never accepted, and its
 * version of an MCP server needs no approval.
 */
const REFUSED = [
  'mcp_server.create',
  'mcp_version.approve',
  'account.reset',
  'account.confirm',
  ...RUN_COMMANDS,
]

/** What the path says, by the fields that it has braces for. */
function boundIn(template: string, path: string): Record<string, string> {
  const pattern = template.replaceAll(/\{(\w+)\*?\}/g, '(?<$1>[^/]+)')
  return { ...new RegExp(`^${pattern}$`).exec(path)?.groups }
}

/** What was made, without what tells the times. */
const made = (body: Record<string, unknown> | string) =>
  typeof body === 'string' ? body : (body['id'] ?? body['client_id'] ?? body['run_id'])

describe.each(OPERATIONS.filter(takesKey).map((operation) => [operation.name, operation] as const))(
  '%s',
  (name, operation) => {
    test('is made once, or says that it was made; its reply comes again', async () => {
      const { room } = world
      const as = operation.domain === 'data_access' ? room.service : room.operator
      const row = ROWS[name]
      const [key, path, body] = [unique('k'), row?.path(world) ?? '', row?.body?.(world)]
      const first = await post(as, key, body, path)
      expect([name, first.status < 300 || REFUSED.includes(name)]).toEqual([name, true])
      await cutOff(room, { ...boundIn(operation.http.path, path), ...(body as object) })
      const again = await post(as, key, body, path)
      expect([name, replayed(again)]).toEqual([name, null])
      if (again.status < 300 && !DOUBLED.includes(name))
        expect([name, made(again.body)]).toEqual([name, made(first.body)])
      else if (!DOUBLED.includes(name))
        expect([name, again.status === 409 || again.status === 429]).toEqual([name, true])
      if (again.status === 429) return
      const third = await post(as, key, body, path)
      // Whatever comes after what is known to be done is told just that.
      if (again.body['code'] === 'idempotency_reply_lost')
        return expect([third.status, third.body['code']]).toEqual([409, 'idempotency_reply_lost'])
      expect([third.status, replayed(third), third.body]).toEqual([again.status, 'true', again.body])
    })
  },
)
