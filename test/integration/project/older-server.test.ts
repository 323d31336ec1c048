/** A project and a server of an older version, which lists flows without hashes and deploys without conditions. */

import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { expect, inject, onTestFinished, test } from 'vitest'
import {
  BOOKINGS,
  manifest,
  projectFolder,
  projectIn,
  slugOf,
  writeFiles,
} from '../../support/fixtures/projects.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

/** The answer of the platform to a request, without what only this version knows. */
async function asOlder(request: IncomingMessage): Promise<Response> {
  const body = await buffer(request)
  const path = String(request.url)
  if (path === '/v1/functions' && body.includes('"expected_version"')) {
    const unknown = { in: 'body', name: 'expected_version', pointer: '/expected_version' }
    const errors = [{ ...unknown, detail: 'is not a known field' }]
    const problem = { code: 'validation_failed', status: 400, errors }
    return Response.json(problem, { status: 400 })
  }
  const { host: _, connection: __, 'content-length': ___, ...headers } = request.headers
  const response = await fetch(`${inject('tenon').url}${path}`, {
    ...{ method: String(request.method), headers: headers as Record<string, string> },
    ...(body.length > 0 && { body }),
  })
  if (!/\/definitions\?/.test(path)) return response
  const { data, page } = (await response.json()) as { data: object[]; page: object }
  const older = data.map((one) => ({ ...one, source_sha256: undefined, has_unpublished_changes: undefined }))
  return Response.json({ data: older, page })
}

test('an older server: the project is applied, changed and the same, although it knows no hashes and no conditions', async () => {
  const server = createServer((request, response) => {
    void asOlder(request).then(async (answer) => {
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
      response.end(Buffer.from(await answer.arrayBuffer()))
    })
  })
  await new Promise<void>((done) => {
    server.listen(0, '127.0.0.1', done)
  })
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const workspace = await createTestWorkspace()
  const folder = await projectFolder({ ...BOOKINGS, ...manifest({ only: workspace }) })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const project = projectIn(folder, workspace, { TENON_URL: url })
  const yes = `--yes=${await slugOf(workspace)}`
  const applied = await project('apply', yes)
  expect(applied, applied.stderr).toMatchObject({ code: 0 })
  expect(await project('diff')).toMatchObject({ code: 0 })
  await writeFiles(folder, {
    'flows/remind.yaml': `# Again.\n${BOOKINGS['flows/remind.yaml']}`,
    'functions/_shared/euros.ts': 'export const euros = (n: number) => `${n}`\n',
  })
  expect(await project('apply', yes)).toMatchObject({ code: 0 })
  expect(await project('diff')).toMatchObject({ code: 0 })
})
