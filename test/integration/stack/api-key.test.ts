/** The worker's connection to Temporal gets each new API key. */

import { NativeConnection } from '@temporalio/worker'
import { expect, inject, test } from 'vitest'
import { keepApiKey } from '../../../src/activities/api-key.ts'
import { eventually } from '../../support/fixtures/tenants.ts'

test('key that the connection does not take: is logged, the next one is taken, until the connection is closed', async () => {
  const address = inject('tenon').env['TEMPORAL_ADDRESS'] ?? ''
  const connection = await NativeConnection.connect({ address, tls: false, apiKey: 'first' })
  const lines: string[] = []
  const line = (level: string) => (_: object, text: string) => lines.push(`${level}: ${text}`)
  let key: unknown = 'first'
  let asked = 0
  const apiKey = () => {
    asked += 1
    return key as string
  }
  keepApiKey(connection, apiKey, { info: line('info') as never, warn: line('warn') as never })
  const logged = (part: string) => eventually(async () => (lines.at(-1)?.includes(part) ? true : undefined))
  // No text, which the SDK refuses.
  key = 5
  await logged('warn: the API key of Temporal could not be replaced')
  key = 'second'
  await logged('info: the API key of Temporal was replaced')
  await connection.close()
  const before = { lines: lines.length, asked }
  key = 'third'
  await eventually(async () => (asked > before.asked ? true : undefined))
  expect(lines).toHaveLength(before.lines)
})
