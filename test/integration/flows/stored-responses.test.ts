/** Responses of `call: http` that a flow stores as objects: their bytes pass neither through the execution nor through Temporal. */

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { createTestWorkspaceWithStorage, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { withRawClient } from '../../support/stack/temporal.ts'
import { bucketOf, configure } from '../../support/stack/workspace-settings.ts'

const MIB = 1_048_576
/** Larger than what an answer of a call may have. */
const FILE = randomBytes(20 * MIB)

let workspace: TestWorkspace
let bucket: string
let executions: Executions
let origin: string

const server = createServer((request, response) => {
  const { url } = request
  if (url === '/file') return response.writeHead(200, { 'content-type': 'video/mp4' }).end(FILE)
  if (url === '/cut') {
    response.writeHead(200, { 'content-length': String(FILE.length) }).write(FILE.subarray(0, MIB))
    return setTimeout(() => response.destroy(), 50)
  }
  return response.writeHead(404, { 'content-type': 'text/plain' }).end('none')
})

beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  origin = `http://${host}`
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  executions = new Executions(workspace)
  await configure(workspace, { egress: { allow: [host] } })
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const storing = (path: string, key: string, more = '') =>
  `  - save: { call: http, with: { method: get, endpoint: '${origin}${path}', output: { object: { bucket: ${bucket}, key: '${key}' } }${more} } }\n`

async function run(tasks: string, { more = '', input = {} } = {}) {
  return executions.ended(await executions.start(await executions.publish(tasks, { more }), { input }))
}

const read = (key: string) =>
  fetch(`${inject('tenon').url}/v1/objects/${bucket}/${key}`, { headers: workspace.service })

test('response with a success: is the object, and its name is the output; no byte is in the history', async () => {
  const { status, output, workflow_id } = await run(storing('/file', '${ "in/" + .name }'), {
    input: { name: 'film.mp4' },
  })
  expect([status, output]).toEqual([
    'completed',
    expect.objectContaining({ bucket, key: 'in/film.mp4', size: FILE.length, created: true }),
  ])
  const stored = await read('in/film.mp4')
  expect([stored.headers.get('content-type'), stored.headers.get('etag')]).toEqual(['video/mp4', output.etag])
  expect(Buffer.from(await stored.arrayBuffer()).equals(FILE)).toBe(true)
  const { events } = await withRawClient((client) => client.workflow.getHandle(workflow_id).fetchHistory())
  expect(JSON.stringify(events).length).toBeLessThan(MIB)
})

test.each([
  ['/none', { status: 404 }],
  ['/cut', { code: 'upstream_unavailable' }],
])('response %s that fails: the call fails, and nothing is stored', async (path, error) => {
  const ended = await run(storing(path, 'failed'))
  expect(ended).toMatchObject({ status: 'faulted', error })
  expect((await read('failed')).status).toBe(404)
})

test('a bucket of another workspace: is refused', async () => {
  const task = storing('/file', 'x').replace(bucket, `not-${bucket}`.slice(0, 60))
  expect(await run(task)).toMatchObject({ status: 'faulted', error: { code: 'AccessDenied' } })
})

test('an output that an expression has made: is refused, since the call might be made twice', async () => {
  const output = `'\${ { object: { bucket: "${bucket}", key: "made" } } }'`
  const task = `  - save: { call: http, with: { method: get, endpoint: '${origin}/file', output: ${output} } }\n`
  expect(await run(task)).toMatchObject({
    status: 'faulted',
    error: { type: expect.stringMatching(/validation$/) },
  })
  expect((await read('made')).status).toBe(404)
})
