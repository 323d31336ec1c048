/** The exchange of an HTTP function over a cluster of Valkey, with both ends at different nodes. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Problem } from '../../../src/core/problem.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { StreamConnection } from '../../../src/features/functions/http/peer.ts'
import { Channels } from '../../../src/infra/valkey/channels.ts'
import { binary } from '../../../stack/binaries.mjs'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../../support/fixtures/tenants.ts'

const REF = { tenantId: 'ten_1' as TenantId, workspaceId: 'ws_1' as WorkspaceId }
const SLOTS_EACH = [
  [0, 5_460],
  [5_461, 10_922],
  [10_923, 16_383],
] as const

const servers: ChildProcess[] = []
let dir: string
let atClient: Channels
let atCode: Channels
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tenon-cluster-'))
  const [first = 0, second = 0] = await startCluster()
  const fail = (error: unknown) => expect.unreachable(String(error))
  atClient = new Channels(`redis://127.0.0.1:${first}`, fail)
  atCode = new Channels(`redis://127.0.0.1:${second}`, fail)
})
afterAll(async () => {
  atClient.close()
  atCode.close()
  const ended = servers.map((server) => once(server, 'exit'))
  for (const server of servers) server.kill('SIGKILL')
  await Promise.all(ended)
  await rm(dir, { recursive: true })
})

/** Three masters. @returns their ports, once each node knows the others */
async function startCluster(): Promise<number[]> {
  const [command, ports] = [await binary('valkey'), new Ports({ remembered: {}, any: true })]
  const nodes = await Promise.all(
    SLOTS_EACH.map(async (slots, n) => {
      const [port, bus] = [await ports.take(`node-${n}`, 0), await ports.take(`bus-${n}`, 0)]
      const own = ['--port', `${port}`, '--cluster-port', `${bus}`, '--cluster-config-file', `${port}.conf`]
      const all = ['--bind', '127.0.0.1', '--save', '', '--dir', dir, '--cluster-enabled', 'yes']
      servers.push(spawn(command, [...own, ...all], { stdio: 'ignore' }))
      return {
        port,
        bus,
        slots,
        client: new Redis(port, '127.0.0.1', { retryStrategy: () => 20 }).on('error', () => {}),
      }
    }),
  )
  await Promise.all(nodes.map(({ client, slots }) => client.cluster('ADDSLOTSRANGE', ...slots)))
  for (const { client } of nodes)
    for (const other of nodes) await client.call('CLUSTER', 'MEET', '127.0.0.1', other.port, other.bus)
  const clients = nodes.map(({ client }) => client)
  for (const from of clients) for (const to of clients) await untilLinked(from, to)
  for (const client of clients) client.disconnect()
  return nodes.map(({ port }) => port)
}

/** Until a message that is sent at a node arrives at another. Before that, they drop what they do not know yet. */
async function untilLinked(from: Redis, to: Redis): Promise<void> {
  const receiver = to.duplicate()
  let hasArrived = false
  receiver.on('message', () => {
    hasArrived = true
  })
  await receiver.subscribe('linked')
  await eventually(async () => {
    await from.publish('linked', '')
    return hasArrived || undefined
  })
  receiver.disconnect()
}

async function peers(runId: string) {
  return {
    client: await StreamConnection.open(atClient, REF, runId, 'client'),
    code: await StreamConnection.open(atCode, REF, runId, 'code'),
  }
}

test('ends at different nodes: the code knows that the client is there, and bodies go both ways', async () => {
  const { client, code } = await peers('run_1')
  expect(await code.isThere()).toBe(true)
  for (const [from, to] of [
    [client, code],
    [code, client],
  ] as const) {
    const sent = Buffer.alloc(1_000_000, 'x')
    const writing = from.write(sent).then(() => from.end())
    const got: Buffer[] = []
    for await (const chunk of to.chunks()) got.push(chunk)
    await writing
    expect(Buffer.concat(got).equals(sent)).toBe(true)
  }
  client.close()
  code.close()
})

test('a client that leaves, before the code has begun or later: the code gets the reason', async () => {
  const { client, code } = await peers('run_2')
  expect(await client.abort(new Problem('api_key_revoked'))).toBe(false)
  await expect(code.isThere()).rejects.toMatchObject({ code: 'api_key_revoked' })
  const later = await peers('run_3')
  const reading = expect(later.code.chunks().next()).rejects.toMatchObject({ code: 'tenant_suspended' })
  await later.code.isThere()
  expect(await later.client.abort(new Problem('tenant_suspended'))).toBe(true)
  await reading
  for (const one of [client, code, later.client, later.code]) one.close()
})
