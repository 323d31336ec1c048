/** Checks with servers that take TLS that the platform reaches them, and says what is wrong with a certificate. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { runChecks } from '../../../src/app/start-checks/start-check.ts'
import { FAILURES, type FailureKind, SERVERS } from '../../../src/infra/health-report.ts'
import { runCommand } from '../../support/clients/cli.ts'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import { call, createTestWorkspaceWithStorage, eventually } from '../../support/fixtures/tenants.ts'
import { makeAuthority, selfSigned } from '../../support/servers/authority.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { openInProcessPlatform } from '../../support/stack/in-process-platform.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'
import { startTlsServers, type TlsServers } from './tls-servers.ts'

const PARTS = ['postgres', 'valkey', 's3'] as const
/** The check at the start that asks the server. */
const CHECKS = { postgres: 'schema', valkey: 'valkey', s3: 'storage' } as const
const HOUR_MS = 3_600_000

let servers: TlsServers
let trusted: string
beforeAll(async () => {
  servers = await startTlsServers()
  trusted = servers.file('ca.pem', servers.authority.certificate)
})
afterAll(() => servers?.close())
afterEach(closeSubscriptions)
beforeEach(() => servers.show(servers.authority.issue()))

/** What the health of each part and the checks at the start say. On a busy machine a check may be late. */
const findings = (settings: Readonly<Record<string, string>>) =>
  eventually(async () => {
    const found = await ask(settings)
    return found.some(({ cause }) => cause === 'timeout') ? undefined : found
  }, 100_000)

async function ask(settings: Readonly<Record<string, string>>) {
  const platform = openInProcessPlatform(settings)
  try {
    const checked = await runChecks(platform.startChecks)
    const { parts } = await platform.health.read()
    return PARTS.map((part) => {
      const { status, cause, detail } = parts.find(({ name }) => name === part) ?? {}
      const check = checked.find(({ check: { name } }) => name === CHECKS[part])
      return { part, status, cause, detail, check: check?.is === 'unknown' ? check.detail : check?.is }
    })
  } finally {
    await platform.close()
  }
}

const failing = (cause: FailureKind) =>
  PARTS.map((part) => {
    const detail = `${SERVERS[part]} ${FAILURES[cause]}`
    return { part, status: 'fail', cause, detail, check: detail }
  })

test('certificates of the authority: documents, objects and events go over TLS alone', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const node = await startInProcessNode(servers.settings(PARTS, trusted))
  const send = (method: string, path: string, body: unknown) =>
    call(method, path, { as: workspace.service, at: node.at, body })
  try {
    const ready = await fetch(`${node.at.url}/readyz`)
    const { checks } = (await ready.json()) as { checks: Record<string, { status: string }> }
    expect(PARTS.map((part) => checks[part]?.status)).toEqual(PARTS.map(() => 'pass'))
    expect((await send('POST', '/v1/collections/notes/documents', { n: 1 })).status).toBe(201)
    const path = `/v1/objects/${await bucketOf(workspace)}/a.txt`
    expect((await send('PUT', path, '"text"')).status).toBe(201)
    expect((await call('GET', path, { as: workspace.service, at: node.at })).status).toBe(200)
    const heard = await subscribeToEvents(workspace.service, 'topic=hello', {}, node.at)
    expect((await send('POST', '/v1/events/publish', { topic: 'hello', data: {} })).status).toBe(202)
    await receivedAtLeast(heard, 1)
  } finally {
    await node.close()
  }
})

describe('certificate of each server', () => {
  test('without the authority among those of Node: is not trusted', async () => {
    expect(await findings(servers.settings(PARTS, undefined))).toEqual(failing('untrusted'))
  })

  test.each([
    ['has expired', 'expired', () => servers.authority.issue({ untilMs: Date.now() - HOUR_MS })],
    ['is not valid yet', 'expired', () => servers.authority.issue({ fromMs: Date.now() + HOUR_MS })],
    ['is of another host', 'misnamed', () => servers.authority.issue({ hosts: ['elsewhere.example'] })],
    ['is of another authority', 'untrusted', () => makeAuthority().issue()],
    ['is self-signed', 'untrusted', () => selfSigned()],
  ] as const)('%s: is named as %s, by the checks at the start, too', async (_, cause, make) => {
    await servers.show(make())
    expect(await findings(servers.settings(PARTS, trusted))).toEqual(failing(cause))
  })

  test('is replaced by another one of the authority: new connections go on', async () => {
    await servers.show(servers.authority.issue())
    const found = await findings(servers.settings(PARTS, trusted))
    expect(found.map(({ status, check }) => [status, check])).toEqual(PARTS.map(() => ['pass', 'good']))
  })
})

test('Valkey without a certificate of the platform: is told from one without trust', async () => {
  const { REDIS_CERT_FILE: _, REDIS_KEY_FILE: __, ...settings } = servers.settings(['valkey'], trusted)
  const found = (await findings(settings)).find(({ part }) => part === 'valkey')
  expect(found).toMatchObject({ status: 'fail', cause: 'certificate' })
})

test('tenon doctor: expired certificate: names the server and what to do', async () => {
  await servers.show(servers.authority.issue({ untilMs: Date.now() - HOUR_MS }))
  const { code, stdout } = await runCommand(['doctor'], {
    env: { ...process.env, ...inject('tenon').env, ...servers.settings(['postgres', 'valkey'], trusted) },
  })
  expect(code).toBe(1)
  for (const part of ['postgres', 'valkey'] as const)
    expect(stdout).toContain(`${SERVERS[part]} ${FAILURES.expired}`)
})
