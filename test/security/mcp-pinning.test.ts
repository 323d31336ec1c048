/** A published function tool runs the function version that it was published with. */

import { expect, test } from 'vitest'
import { aServer, callTool, ok, publish, scopesOf, tokenFor } from '../support/clients/mcp.ts'
import { aRoom, call, type Room } from '../support/fixtures/tenants.ts'

const TOOLS = { 'functions:quote:invoke': { enabled: true } }

const deploy = (room: Room, returns: string) =>
  ok(
    call('POST', '/v1/functions', {
      as: room.operator,
      body: { workspace_id: room.workspaceId, name: 'quote', source: `export default () => '${returns}'` },
    }),
  )

test('function tool, function redeployed: the old version runs until the next publication', async () => {
  const room = await aRoom()
  await deploy(room, 'first')
  const hosted = await aServer(room, 'pinned', TOOLS)
  const token = await tokenFor(hosted, scopesOf(hosted, 'call_quote'))
  const run = async () => (await callTool(hosted.path, token, 'call_quote')).body.result.content[0].text
  expect(await run()).toBe('"first"')
  await deploy(room, 'second')
  expect(await run()).toBe('"first"')
  const byRest = { as: room.operator, body: { tool: 'call_quote', arguments: {} } }
  expect((await ok(call('POST', `${hosted.base}/call`, byRest))).content[0].text).toBe('"first"')

  const second = await publish(hosted, TOOLS)
  expect(second.state).toBe('active')
  expect(second.diff.changed).toEqual([{ name: 'call_quote', fields: expect.arrayContaining(['binding']) }])
  expect(second.diff.summary).toEqual([
    'The tool call_quote runs version 2 of the function quote; before, it ran version 1.',
  ])
  expect(await run()).toBe('"second"')
  await ok(call('POST', `${hosted.base}/versions/1/activate`, { as: room.operator, body: {} }))
  expect(await run()).toBe('"first"')
})

test('function tool called with a version: argument refused', async () => {
  const room = await aRoom()
  await deploy(room, 'first')
  await deploy(room, 'second')
  const hosted = await aServer(room, 'chosen', TOOLS)
  const token = await tokenFor(hosted, scopesOf(hosted, 'call_quote'))
  const { result } = (await callTool(hosted.path, token, 'call_quote', { version: 1 })).body
  expect([result.isError, result.content[0].text]).toEqual([
    true,
    expect.stringContaining('validation_failed'),
  ])
})

test('function tool, function deleted: answers not_found', async () => {
  const room = await aRoom()
  const { id } = await deploy(room, 'first')
  const hosted = await aServer(room, 'deleted', TOOLS)
  const token = await tokenFor(hosted, scopesOf(hosted, 'call_quote'))
  await ok(call('DELETE', `/v1/functions/${id}`, { as: room.operator }))
  await deploy(room, 'another function of the same name')
  const { result } = (await callTool(hosted.path, token, 'call_quote')).body
  expect([result.isError, result.content[0].text]).toEqual([true, expect.stringContaining('not_found')])
})
