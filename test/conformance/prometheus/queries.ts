/** Runs every query of the dashboard and of the alerts on a Prometheus that scrapes a platform with some traffic. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parse, stringify } from 'yaml'
import { createTestWorkspace } from '../../../bench/fixture.ts'
import { Ports } from '../../../stack/ports.ts'
import { opsAddress } from '../../support/clients/metrics.ts'
import { ALERTS_FILE, readAlerts, readDashboard } from '../../support/clients/monitoring.ts'
import { type Running, startPlatform } from '../../support/stack/start.ts'
import type { Programs } from './prometheus.ts'

/** A platform without faults and without load has no series for queries of these. */
const EMPTY_IF_WELL =
  /http_problems|request_failure|sticky_cache_miss|waits_total|^tenon_observation_up == 0$/

/** @returns what failed */
export async function testQueries({ prometheus }: Programs): Promise<string[]> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-prometheus-'))
  const started = await startPlatform(dir)
  let server: ChildProcess | undefined
  try {
    const port = await new Ports({ remembered: {}, any: true }).take('prometheus', 0)
    await writeFile(join(dir, 'prometheus.yml'), stringify(await configOf(started.running)))
    server = spawn(
      prometheus,
      [
        `--config.file=${join(dir, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(dir, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      { stdio: 'ignore' },
    )
    const ask = asker(`http://127.0.0.1:${port}`)
    await until(async () => (await ask('count(up == 1)'))[0]?.value === 2)
    await traffic(started.running)
    return await failuresOf(ask)
  } finally {
    server?.kill('SIGKILL')
    if (server?.exitCode === null) await once(server, 'exit')
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

/** The configuration of the repository with the addresses of this platform, and an interval that suits a test. */
async function configOf(running: Running): Promise<object> {
  const shipped = parse(await readFile('deploy/prometheus/prometheus.yml', 'utf8')) as {
    scrape_configs: { job_name: string }[]
  }
  const jobs = shipped.scrape_configs.map(async ({ job_name, ...job }) => {
    const address = await opsAddress(job_name === 'tenon-api' ? 'api' : 'worker', running)
    return { ...job, job_name, static_configs: [{ targets: [address.replace('http://', '')] }] }
  })
  return {
    ...shipped,
    global: { scrape_interval: '2s', evaluation_interval: '2s' },
    rule_files: [resolve(ALERTS_FILE)],
    scrape_configs: await Promise.all(jobs),
  }
}

interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

type Ask = (query: string) => Promise<readonly Sample[]>

const asker =
  (url: string): Ask =>
  async (query) => {
    const response = await fetch(`${url}/api/v1/query?${new URLSearchParams({ query })}`).catch(
      () => undefined,
    )
    if (response === undefined || response.status === 503) return []
    const reply = (await response.json()) as {
      status: string
      error?: string
      data: { result: { metric: Record<string, string>; value: [number, string] }[] }
    }
    if (reply.status !== 'success') throw new Error(`${query}: ${reply.error}`)
    return reply.data.result.map(({ metric, value: [, value] }) => ({ labels: metric, value: Number(value) }))
  }

async function until(isSo: () => Promise<boolean>, timeoutMs = 60_000): Promise<void> {
  const untilMs = performance.now() + timeoutMs
  while (!(await isSo())) {
    if (performance.now() > untilMs) throw new Error('Prometheus has not scraped both processes in time.')
    await delay(500)
  }
}

/** Requests, an execution and runs of a function, so that each metric that counts work has a series. */
async function traffic(running: Running): Promise<void> {
  const { admin, apikey, workspaceId, url } = await createTestWorkspace(running)
  const headers = { apikey, 'content-type': 'application/json' }
  const source = `document: { dsl: '1.0.3', namespace: n, name: seen, version: '1.0.0' }\ndo:\n- one: { call: http, with: { method: get, endpoint: 'http://127.0.0.1:${running.echoPorts[0]}/' } }`
  const flows = `/v1/flows/workspaces/${workspaceId}/definitions`
  const { id: flow } = await admin.post<{ id: string }>(flows, { name: 'seen', source })
  await admin.post(`${flows}/${flow}/versions`, {})
  const code = { workspace_id: workspaceId, name: 'seen', source: 'export default () => 1' }
  const { id: run } = await admin.post<{ id: string }>('/v1/functions', code)
  for (let round = 0; round < 8; round++) {
    await fetch(`${url}/v1/collections/seen/documents`, { method: 'POST', headers, body: '{"n":1}' })
    await fetch(`${url}/v1/functions/${run}/invoke`, { method: 'POST', headers, body: '{}' })
    await admin.post(`${flows}/${flow}/executions`, { input: {} }, 10)
    await delay(1_000)
  }
}

/** Series of one process at most. */
const SERIES_MAX = 2_000

async function failuresOf(ask: Ask): Promise<string[]> {
  const failures: string[] = []
  const dashboard = readDashboard()
  for (const { title, expr } of dashboard) {
    // Grafana puts four scrapes there.
    const found = await ask(expr.replaceAll('$__rate_interval', '8s'))
    if (found.length === 0 && !EMPTY_IF_WELL.test(expr)) failures.push(`${title}: no series for ${expr}`)
  }
  const alerts = readAlerts()
  for (const { alert, expr } of alerts) {
    const found = await ask(expr)
    if (found.length > 0) failures.push(`${alert}: is about to fire on a platform without faults`)
  }
  for (const { labels, value } of await ask('scrape_samples_scraped'))
    if (value > SERIES_MAX) failures.push(`${labels['job']} has ${value} series`)
  process.stdout.write(`${dashboard.length} queries of the dashboard, ${alerts.length} of alerts.\n`)
  return failures
}
