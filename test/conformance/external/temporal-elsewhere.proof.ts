/** Checks that API and worker reach a Temporal behind TLS, with client certificates and with API keys, and that a key can be replaced under load. */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Connection } from '@temporalio/client'
import { v7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { runChecks } from '../../../src/app/start-checks/start-check.ts'
import { FAILURES } from '../../../src/infra/health-report.ts'
import { clientOptions, readTemporal } from '../../../src/infra/temporal/connection.ts'
import { ensureNamespace } from '../../../src/infra/temporal/namespace.ts'
import { runCommand } from '../../support/clients/cli.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { makeAuthority } from '../../support/servers/authority.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { openInProcessPlatform } from '../../support/stack/in-process-platform.ts'
import { startWorker } from '../../support/stack/worker-process.ts'
import { OTHER_HOST, startTemporalGateway, type TemporalGateway } from './temporal-gateway.ts'

const FIRST_KEY = 'the-first-key'
const HOUR_MS = 3_600_000
const namespace = `elsewhere-${v7()}`

let gateway: TemporalGateway
let trusted: string
let withCertificate: Record<string, string>
let withKey: Record<string, string>
let keyFile: string
beforeAll(async () => {
  gateway = await startTemporalGateway(FIRST_KEY)
  trusted = gateway.file('ca.pem', gateway.authority.certificate)
  const own = gateway.authority.issue({ hosts: ['tenon.example'] })
  withCertificate = {
    TEMPORAL_ADDRESS: gateway.mtls,
    TEMPORAL_NAMESPACE: namespace,
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: trusted,
    TEMPORAL_TLS_CLIENT_CERT_PATH: gateway.file('own.pem', own.certificate),
    TEMPORAL_TLS_CLIENT_KEY_PATH: gateway.file('own.key', own.key),
  }
  keyFile = gateway.file('api-key', `${FIRST_KEY}\n`)
  withKey = {
    TEMPORAL_ADDRESS: gateway.keyed,
    TEMPORAL_NAMESPACE: namespace,
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: trusted,
    TEMPORAL_API_KEY_FILE: keyFile,
  }
  const connection = await Connection.connect(clientOptions(readTemporal(withCertificate)))
  await ensureNamespace(connection, namespace)
  await connection.close()
})
afterAll(() => gateway?.close())

async function stop(worker: ChildProcess): Promise<void> {
  const exited = once(worker, 'exit')
  worker.kill('SIGTERM')
  await exited
}

/** An API and a worker with these settings; no other worker polls in the namespace. */
async function withPlatform(
  settings: Readonly<Record<string, string>>,
  work: (executions: Executions) => Promise<void>,
): Promise<void> {
  const first = inject('tenon')
  const node = await startInProcessNode(settings)
  const worker = await startWorker({ ...first, env: { ...first.env, ...settings } })
  try {
    await work(new Executions(await createTestWorkspace(), node.at))
  } finally {
    await stop(worker)
    await node.close()
  }
}

const FLOW = '  - one: { set: { x: 1 } }\n'

async function runOne(executions: Executions): Promise<void> {
  const id = await executions.start(await executions.publish(FLOW))
  expect((await executions.ended(id)).status).toBe('completed')
}

test('Temporal that wants a client certificate: executions run', async () => {
  await withPlatform(withCertificate, runOne)
})

test('profile of a file, with an API key: executions run', async () => {
  const profile = `[profile.prod]\naddress = "${gateway.keyed}"\nnamespace = "${namespace}"\napi_key = "${FIRST_KEY}"\n[profile.prod.tls]\nserver_ca_cert_path = "${trusted}"\n`
  const TEMPORAL_CONFIG_FILE = gateway.file('temporal.toml', profile)
  const settings = { TEMPORAL_CONFIG_FILE, TEMPORAL_PROFILE: 'prod', TEMPORAL_ADDRESS: '' }
  await withPlatform(settings, runOne)
})

test('API key replaced under load: all executions complete, without a restart', async () => {
  await withPlatform(withKey, async (executions) => {
    const flow = await executions.publish(FLOW)
    const ids: string[] = []
    let isOver = false
    const load = (async () => {
      while (!isOver) ids.push(await executions.start(flow))
    })()
    await eventually(async () => (ids.length > 5 ? true : undefined))
    await gateway.accept(FIRST_KEY, 'the-second-key')
    writeFileSync(keyFile, 'the-second-key\n')
    const replaced = ids.length
    // Both read the file every 5 s at most; then nobody sends the first key any more.
    await eventually(async () => (ids.length > replaced + 20 ? true : undefined), 120_000)
    await eventually(async () => ((await isFirstKeyUnused()) ? true : undefined), 60_000)
    await gateway.accept('the-second-key')
    const after = ids.length
    await eventually(async () => (ids.length > after + 10 ? true : undefined), 120_000)
    isOver = true
    await load
    for (const id of ids) expect((await executions.ended(id)).status).toBe('completed')
  })
  await gateway.accept(FIRST_KEY)
  writeFileSync(keyFile, `${FIRST_KEY}\n`)
})

const replacedMs = { at: 0 }
/** The processes have had their time to read the file. */
async function isFirstKeyUnused(): Promise<boolean> {
  replacedMs.at ||= performance.now()
  return performance.now() - replacedMs.at > 8_000
}

describe('what is wrong', () => {
  /** The health of Temporal, and its check at the start. */
  async function findings(settings: Readonly<Record<string, string>>) {
    const platform = openInProcessPlatform(settings)
    try {
      const checked = await runChecks(platform.startChecks)
      const { parts } = await platform.health.read()
      const { status, cause, detail } = parts.find(({ name }) => name === 'temporal') ?? {}
      return {
        status,
        cause,
        detail,
        check: checked.find(({ check: { name } }) => name === 'temporal')?.detail,
      }
    } finally {
      await platform.close()
    }
  }

  test.each([
    ['expired certificate', 'expired', () => gateway.authority.issue({ untilMs: Date.now() - HOUR_MS })],
    ['certificate of another host', 'misnamed', () => gateway.authority.issue({ hosts: [OTHER_HOST] })],
    ['certificate of another authority', 'untrusted', () => makeAuthority().issue()],
  ] as const)('%s: is named as %s', async (_, cause, make) => {
    await gateway.show(make())
    try {
      const detail = `Temporal ${FAILURES[cause]}`
      expect(await findings(withKey)).toEqual({ status: 'fail', cause, detail, check: detail })
    } finally {
      await gateway.show(gateway.authority.issue())
    }
  })

  test('no client certificate: is named', async () => {
    const { TEMPORAL_TLS_CLIENT_CERT_PATH: _, TEMPORAL_TLS_CLIENT_KEY_PATH: __, ...without } = withCertificate
    expect(await findings(without)).toMatchObject({ status: 'fail', cause: 'certificate' })
  })

  test('wrong API key: is named, by `tenon doctor`, too', async () => {
    const wrong = { ...withKey, TEMPORAL_API_KEY_FILE: gateway.file('wrong-key', 'wrong') }
    expect(await findings(wrong)).toMatchObject({ status: 'fail', cause: 'denied' })
    const { stdout } = await runCommand(['doctor'], {
      env: { ...process.env, ...inject('tenon').env, ...wrong },
    })
    expect(stdout).toContain(`Temporal ${FAILURES.denied}`)
  })

  test('no TLS towards a server that expects it: is named', async () => {
    const settings = { TEMPORAL_ADDRESS: gateway.mtls, TEMPORAL_NAMESPACE: namespace }
    expect(await findings(settings)).toMatchObject({ status: 'fail', cause: 'tls' })
  })
})
