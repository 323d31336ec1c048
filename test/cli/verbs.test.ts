/** The verbs of the CLI as a person types them, each against the running platform. */

import { execFile, spawn } from 'node:child_process'
import { promisify } from 'node:util'
import { beforeAll, expect, inject, test } from 'vitest'
import { aRoom, type Room } from '../support/tenants.ts'

const run = promisify(execFile)
let room: Room
let env: NodeJS.ProcessEnv

beforeAll(async () => {
  room = await aRoom()
  const { url, clientId, clientSecret } = inject('tenon')
  env = {
    ...process.env,
    TENON_URL: url,
    TENON_CLIENT_ID: clientId,
    TENON_CLIENT_SECRET: clientSecret,
    TENON_WORKSPACE_ID: room.workspaceId,
    TENON_SERVICE_KEY: room.service['apikey'],
  }
})

const tenon = async (...args: string[]) =>
  (await run(process.execPath, ['stack/bootstrap.mjs', ...args], { env })).stdout
const json = async (...args: string[]) => JSON.parse(await tenon(...args))

test('collection add and list', async () => {
  await json('collection', 'add', 'todos', '{"title":"milk"}')
  expect((await json('collection', 'list', 'todos')).data).toMatchObject([{ title: 'milk' }])
  const refused = await tenon('collection', 'add', 'todos', '{title:}').catch((error) => error)
  expect(refused).toMatchObject({ code: 1, stderr: 'The document is not JSON: {title:}\n' })
}, 60_000)

test('quota set and show, service configure, metrics', async () => {
  expect((await json('quota', 'set', 'documents', '7')).quotas.documents.limit).toBe(7)
  expect(await tenon('quota', 'show')).toMatch(/^documents +\d+ of 7$/m)
  expect((await json('service', 'configure', 'mcp.flow_tools')).experimental).toEqual(['mcp.flow_tools'])
  expect(await json('metrics', 'errors', '--window', '10m')).toMatchObject({ metric: 'errors', step: '1m' })
}, 60_000)

test('event subscribe hears what event publish says', async () => {
  const listener = spawn(process.execPath, ['stack/bootstrap.mjs', 'event', 'subscribe', 'orders.*'], { env })
  const ready = new Promise((done) => listener.stderr.once('data', done))
  const heard = new Promise<string>((done) =>
    listener.stdout.once('data', (chunk: Buffer) => done(String(chunk))),
  )
  try {
    await ready
    await json('event', 'publish', 'orders.created', '{"n":1}')
    expect(JSON.parse(await heard)).toMatchObject({ type: 'orders.created', data: { n: 1 } })
  } finally {
    listener.kill()
  }
}, 60_000)
