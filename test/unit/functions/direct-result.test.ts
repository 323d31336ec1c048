/** The direct way of a result: channels that cannot be opened, and results that are too large for it. */

import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { attachInternals } from '../../../src/access/internals.ts'
import type { WorkspaceScope } from '../../../src/access/scope.ts'
import { Problem } from '../../../src/core/problem.ts'
import type { Channels } from '../../../src/features/functions/channels.ts'
import { FUNCTION_LIMITS } from '../../../src/features/functions/limits.ts'
import { receiveResult, sendResult } from '../../../src/features/functions/runs/direct-result.ts'

/** A scope with these channels and nothing else. */
function scopeWith(channels: Partial<Channels>): WorkspaceScope {
  const scope = { ref: { tenantId: 'ten_1', workspaceId: 'ws_1' } }
  attachInternals(scope, { services: { channels } } as never)
  return scope as never
}

test('channel that cannot be opened: no unhandled rejection, and closing it does nothing', async () => {
  const unavailable = async () => {
    throw new Problem('dependency_unavailable')
  }
  const direct = receiveResult(scopeWith({ open: unavailable, send: unavailable }), 'run_1')
  sendResult(scopeWith({ open: unavailable, send: unavailable }), 'run_1', 1)
  await turn()
  direct.close()
  expect(await Promise.race([direct.received, turn('none')])).toBe('none')
})

test('result: arrives as it was sent, on the channel of its workspace and run alone; a large one is not sent', async () => {
  const open = new Map<string, (bytes: Buffer) => void>()
  const sent: number[] = []
  const scope = scopeWith({
    open: async (channel, { message }) => {
      open.set(channel, message)
      return () => open.delete(channel)
    },
    send: async (channel, bytes) => {
      sent.push(bytes.length)
      open.get(channel)?.(bytes)
    },
  })
  const [direct, other] = [receiveResult(scope, 'run_1'), receiveResult(scope, 'run_2')]
  const max = FUNCTION_LIMITS.directResultBytesMax
  sendResult(scope, 'run_1', 'x'.repeat(max))
  expect(sent).toEqual([])
  const result = { text: 'ä\u0000', list: [null, 1.5], ['__proto__']: 1 }
  sendResult(scope, 'run_1', result)
  expect(await direct.received).toEqual(result)
  expect(await Promise.race([other.received, turn('none')])).toBe('none')
  direct.close()
  other.close()
  await turn()
  expect(open.size).toBe(0)
})
