/**
 * Runs the official conformance suites of MCP against a hosted server that is created, curated and published through the
 * product's own API. Checks that do not pass are listed with their reasons in `expected/`; the run fails if another one does not pass,
 * or if a listed one passes.
 */

import { execFile, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { ApiClient, fetchToken } from '../../../src/cli/client.ts'
import { type Running, startPlatform } from '../../support/stack/start.ts'
import { differences, readExpected, readFailed } from './expected-checks.ts'
import { FUNCTIONS, flows, PROMPTS, RESOURCES } from './fixtures.ts'

const PACKAGE = '@modelcontextprotocol/conformance'
const SUITES = [
  { name: '2025', version: '0.1.16', args: ['--suite', 'all'] },
  { name: '2025-11-25', version: '0.2.0-alpha.12', args: ['--requirements', '2025-11-25'] },
  { name: '2026-07-28', version: '0.2.0-alpha.12', args: ['--requirements', '2026-07-28'] },
] as const

const LOCAL = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/

const folder = await mkdtemp(join(tmpdir(), 'tenon-mcp-'))
const results = resolve(process.env['TENON_CALLER_CWD'] ?? '.', process.argv[2] ?? join(folder, 'results'))
const started = await startPlatform(folder)
try {
  const server = await publishServer(started.running)
  const proxy = await authorizingProxy(server)
  let failed = 0
  for (const { name, version, args } of SUITES) {
    process.stdout.write(`\n== ${PACKAGE}@${version} ${args.join(' ')}\n`)
    const output = join(results, name)
    await rm(output, { recursive: true, force: true })
    await run(await program(version), ['server', '--url', proxy.url, ...args, '-o', output])
    const expected = await readExpected(join(import.meta.dirname, 'expected', `${name}.yaml`))
    const found = differences(await readFailed(output), expected)
    process.stdout.write(`${found.length === 0 ? 'As expected.' : found.join('\n')}\n`)
    failed += found.length === 0 ? 0 : 1
  }
  proxy.close()
  process.exitCode = failed
} finally {
  await started.stop()
  await rm(folder, { recursive: true, force: true })
}

/** Installs a version of the suite in the folder of the run. @returns the path of its program */
async function program(version: string): Promise<string> {
  const prefix = join(folder, `suite-${version}`)
  const args = [
    'install',
    '--prefix',
    prefix,
    '--no-audit',
    '--no-fund',
    '--ignore-scripts',
    `${PACKAGE}@${version}`,
  ]
  await promisify(execFile)('npm', args, { cwd: folder })
  return join(prefix, 'node_modules', PACKAGE, 'dist', 'index.js')
}

/** Its exit code says that a scenario failed, also one that is expected to. */
function run(path: string, args: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [path, ...args], { stdio: 'inherit' })
  return new Promise((done) => child.once('exit', () => done()))
}

interface Server {
  readonly url: string
  readonly token: string
}

async function publishServer({ url, clientId, clientSecret }: Running): Promise<Server> {
  const admin = new ApiClient(url, {
    authorization: `Bearer ${await fetchToken(url, clientId, clientSecret)}`,
  })
  const tenant = await admin.post<{ id: string }>('/v1/tenants', { name: 'Suite', slug: 'suite' }, 30)
  const body = { tenant_id: tenant.id, name: 'Suite', slug: 'suite' }
  const { id: workspace_id } = await admin.post<{ id: string }>('/v1/workspaces', body, 30)
  for (const [tool, source] of Object.entries(FUNCTIONS))
    await admin.post('/v1/functions', { workspace_id, name: nameOf(tool), source })
  const configured = { workspace_id, experimental: ['mcp.flow_tools'] }
  await admin.post('/v1/services/configure', configured)
  const tasks = flows(clientId)
  const definitions = `/v1/flows/workspaces/${workspace_id}/definitions`
  for (const [tool, body] of Object.entries(tasks)) {
    const source = `document: { dsl: '1.0.3', namespace: suite, name: ${nameOf(tool)}, version: '1.0.0' }${body}\n`
    const { id } = await admin.post<{ id: string }>(definitions, { source })
    await admin.post(`${definitions}/${id}/versions`, {})
  }
  const servers = `/v1/mcp/workspaces/${workspace_id}/servers`
  const { path } = await admin.post<{ path: string }>(servers, { name: 'Conformance', slug: 'suite' })
  const toolOf = (tool: string, candidate: string) =>
    [candidate, { enabled: true, name: tool, scope: 'all' }] as const
  const tools = Object.fromEntries([
    ...Object.keys(FUNCTIONS).map((tool) => toolOf(tool, `functions:${nameOf(tool)}:invoke`)),
    ...Object.keys(tasks).map((tool) => toolOf(tool, `flows:${nameOf(tool)}:run`)),
  ])
  await admin.call('PUT', `${servers}/suite/curation`, { tools, prompts: PROMPTS, resources: RESOURCES })
  await admin.post(`${servers}/suite/publish`, {})
  const resource = `${url}${path}`
  return {
    url: resource,
    token: await fetchToken(url, clientId, clientSecret, { resource, scope: 'mcp:suite:all' }),
  }
}

/** The name of the function or the flow behind a tool. */
function nameOf(tool: string): string {
  return tool.replaceAll('_', '-')
}

/** Adds the token to the requests of the suites, which send none. */
async function authorizingProxy({ url, token }: Server): Promise<{ url: string; close: () => void }> {
  const target = new URL(url)
  const proxy = createServer((from, to) => {
    // The checks of foreign hosts and origins see what the suite sends.
    const { host = '', origin, ...headers } = from.headers
    const isOwn = LOCAL.test(host)
    const page = origin !== undefined && LOCAL.test(origin.replace('http://', '')) ? target.origin : origin
    const sent = request(
      target,
      {
        method: from.method,
        headers: {
          ...headers,
          ...(page !== undefined && { origin: page }),
          host: isOwn ? target.host : host,
          authorization: `Bearer ${token}`,
        },
      },
      (response) => {
        to.writeHead(response.statusCode ?? 502, response.headers)
        response.pipe(to)
      },
    )
    sent.on('error', () => to.destroy())
    from.pipe(sent)
  })
  await new Promise<void>((done) => proxy.listen(0, '127.0.0.1', done))
  const { port } = proxy.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/mcp`, close: () => proxy.close() }
}
