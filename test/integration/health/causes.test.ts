/** The checks of the servers: each cause of a failure is told from the others, and each change is one line of the log. */

import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { openPlatform } from '../../../src/app/platform.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import type { FailureKind, PartHealth } from '../../../src/infra/health-report.ts'
import { SERVERS } from '../../../src/infra/health-report.ts'
import { openLog } from '../../../src/infra/log.ts'
import { call, eventually, operator } from '../../support/fixtures/tenants.ts'
import { startTcpProxy } from '../../support/servers/tcp-proxy.ts'
import { openTlsServer, type TlsServer } from '../../support/servers/tls-server.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'

/** Accepts connections, and says nothing. */
let silent: Server
let tls: TlsServer
const sockets: Socket[] = []

beforeAll(async () => {
  silent = createServer((socket) => void sockets.push(socket.on('error', () => {})))
  await new Promise<void>((done) => silent.listen(0, '127.0.0.1', done))
  tls = await openTlsServer((_request, reply) => reply.end())
})
afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  silent.close()
  await tls.close()
})

interface Line {
  readonly msg: string
  readonly part?: string
  readonly cause?: string
  readonly detail?: string
  readonly address?: string
}

/** A platform of which only the checks are used. */
function openChecks(settings: Readonly<Record<string, string>>) {
  const lines: Line[] = []
  const log = openLog('info', 'test', { write: (line) => void lines.push(JSON.parse(line)) })
  const { platform } = openPlatform(parseConfig({ ...inject('tenon').env, ...settings }), log)
  return {
    health: platform.health,
    /** Lines about checks. */
    changes: () => lines.filter(({ msg, part = '' }) => msg.startsWith('health check') && part in SERVERS),
    close: () => platform.close(),
  }
}

/** Settings with which every server is at one address. */
const allAt = (host: string) => ({
  DATABASE_APP_URL: `postgres://tenon_app:x@${host}/tenon`,
  TEMPORAL_ADDRESS: host,
  S3_ENDPOINT: `http://${host}`,
  REDIS_URL: `redis://${host}`,
  MONGODB_URL: `mongodb://${host}`,
})

const OUTAGES: readonly (readonly [string, FailureKind, () => string])[] = [
  ['nothing listens', 'refused', () => '127.0.0.1:1'],
  ['the host name is unknown', 'unresolved', () => 'nowhere.invalid:5000'],
  ['the server expects TLS', 'tls', () => tls.host],
  ['the server says nothing', 'timeout', () => `127.0.0.1:${(silent.address() as AddressInfo).port}`],
]

test.each(OUTAGES)(
  'servers: %s: every check fails with the cause %s, and logs it once',
  async (_, cause, at) => {
    const checks = openChecks(allAt(at()))
    const reports = [await checks.health.read(), await checks.health.read()]
    for (const { status, parts } of reports) {
      expect(status).toBe('fail')
      const servers = parts.filter(({ name }) => name in SERVERS)
      expect(servers.map((part) => `${part.name}: ${part.status}, ${part.cause}`).toSorted()).toEqual(
        Object.keys(SERVERS)
          .map((name) => `${name}: fail, ${cause}`)
          .toSorted(),
      )
    }
    const changes = checks.changes()
    expect(changes.map(({ msg, part, cause }) => ({ msg, part, cause }))).toEqual(
      changes.map(({ part }) => ({ msg: 'health check fails', part, cause })),
    )
    expect(changes.map(({ part }) => part).sort()).toEqual(Object.keys(SERVERS).sort())
    for (const { part, detail, address } of changes) {
      expect(detail).toContain(SERVERS[part as keyof typeof SERVERS])
      expect([part, address]).toEqual([part, at()])
    }
    await checks.close()
  },
)

test('Temporal: the namespace does not exist: the check says so', async () => {
  const checks = openChecks({ TEMPORAL_NAMESPACE: 'not-made' })
  const { status, parts } = await checks.health.read()
  expect([status, parts.find(({ name }) => name === 'temporal')]).toMatchObject([
    'warn',
    {
      ...{ status: 'fail', cause: 'namespace' },
      detail: expect.stringMatching(/^Temporal does not have .*`tenon migrate`, which makes it/),
    },
  ])
  await checks.close()
})

test('credentials: PostgreSQL and S3 refuse them: the checks say so', async () => {
  const url = new URL(inject('tenon').env['DATABASE_APP_URL'] ?? '')
  url.password = 'wrong'
  const checks = openChecks({ DATABASE_APP_URL: url.href, S3_SECRET_ACCESS_KEY: 'wrong' })
  const { parts } = await checks.health.read()
  const causes = parts.flatMap(({ name, cause }) =>
    cause === undefined || !(name in SERVERS) ? [] : [`${name}: ${cause}`],
  )
  expect(causes).toEqual(['postgres: denied', 's3: denied'])
  await checks.close()
})

test('object store without sessions: is asked for a bucket', async () => {
  const checks = openChecks({ S3_IDENTITY: 'none' })
  expect(partOf((await checks.health.read()).parts, 's3')?.status).toBe('pass')
  await checks.close()
  const away = openChecks({ S3_IDENTITY: 'none', S3_ENDPOINT: 'http://127.0.0.1:1' })
  expect(partOf((await away.health.read()).parts, 's3')?.cause).toBe('refused')
  await away.close()
})

const partOf = (parts: readonly PartHealth[], name: string) => parts.find((part) => part.name === name)

test('a server goes and comes back: one line of the log each, with the time since when', async () => {
  const proxy = await startTcpProxy(new URL(inject('tenon').env['REDIS_URL'] ?? ''))
  const url = new URL(inject('tenon').env['REDIS_URL'] ?? '')
  url.port = String(proxy.port)
  const checks = openChecks({ REDIS_URL: url.href })
  const read = async () => partOf((await checks.health.read()).parts, 'valkey')
  const up = await read()
  expect([up?.status, checks.changes()]).toEqual(['pass', []])
  proxy.close()
  const down = await eventually(async () => {
    const part = await read()
    return part?.status === 'fail' ? part : undefined
  })
  expect(Date.parse(down.since)).toBeGreaterThan(Date.parse(up?.since ?? ''))
  const again = await startTcpProxy(new URL(inject('tenon').env['REDIS_URL'] ?? ''), { port: proxy.port })
  await eventually(async () => ((await read())?.status === 'pass' ? true : undefined))
  const changes = checks.changes().filter(({ part }) => part === 'valkey')
  expect(changes.at(-1)?.msg).toBe('health check passes')
  // The connection breaks first, and is refused afterwards: another cause is another change.
  const causes = changes.map(({ cause }) => cause)
  expect(causes).toEqual([...new Set(causes)])
  await checks.close()
  again.close()
})

test('status of the installation: an admin: reads each part, what fails and what to do, also without Valkey', async () => {
  const node = await startInProcessNode({ REDIS_URL: 'redis://127.0.0.1:1' })
  const as = await operator()
  const { status, body } = await call('GET', '/v1/status', { as, at: node.at })
  expect([status, body.status]).toEqual([200, 'warn'])
  const valkey = partOf(body.parts, 'valkey')
  expect(valkey).toMatchObject({ required: false, status: 'fail', cause: 'refused' })
  expect(valkey?.detail).toContain('Valkey refuses connections')
  expect(partOf(body.parts, 'postgres')).toMatchObject({ required: true, status: 'pass' })
  const { body: ready } = await call('GET', '/readyz', { at: node.at })
  // Causes and sentences name servers and settings, and this route needs no credential.
  expect(Object.keys(ready)).toEqual(['status', 'checks'])
  expect(ready.checks.valkey).toEqual({ status: 'fail' })
  for (const check of Object.values(ready.checks)) expect(Object.keys(check as object)).toEqual(['status'])
  await node.close()
})

test('version and start: every process: tells its build, schema and protocol, and that it has started', async () => {
  const { body } = await call('GET', '/version')
  expect(body).toEqual({
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    build: expect.stringMatching(/^[0-9a-f]{24}$/),
    schema: expect.stringMatching(/^[0-9a-f]{12}$/),
    protocol: 1,
  })
  expect(await call('GET', '/startupz')).toMatchObject({ status: 200, body: { status: 'pass' } })
  const node = await startInProcessNode({ DATABASE_APP_URL: 'postgres://tenon_app:x@127.0.0.1:1/tenon' })
  for (const path of ['/startupz', '/readyz'])
    expect(await call('GET', path, { at: node.at })).toMatchObject({ status: 503, body: { status: 'fail' } })
  expect((await call('GET', '/healthz', { at: node.at })).status).toBe(200)
  await node.close()
})
