/** A published tool over a function or a flow runs the version that it was published with. */

import { expect, test } from 'vitest'
import { callTool, ok, publish, publishMcpServer, scopesOf, tokenFor } from '../support/clients/mcp.ts'
import { Executions } from '../support/fixtures/executions.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../support/fixtures/tenants.ts'

const TOOLS = { 'functions:quote:invoke': { enabled: true } }

const deploy = (workspace: TestWorkspace, returns: string) =>
  ok(
    call('POST', '/v1/functions', {
      as: workspace.operator,
      body: {
        workspace_id: workspace.workspaceId,
        name: 'quote',
        source: `export default () => '${returns}'`,
      },
    }),
  )

test('function tool, function redeployed: the old version runs until the next publication (T24)', async () => {
  const workspace = await createTestWorkspace()
  await deploy(workspace, 'first')
  const mcpServer = await publishMcpServer(workspace, 'pinned', TOOLS)
  const token = await tokenFor(mcpServer, scopesOf(mcpServer, 'call_quote'))
  const run = async () => (await callTool(mcpServer.path, token, 'call_quote')).body.result.content[0].text
  expect(await run()).toBe('first')
  await deploy(workspace, 'second')
  expect(await run()).toBe('first')
  const byRest = { as: workspace.operator, body: { tool: 'call_quote', arguments: {} } }
  expect((await ok(call('POST', `${mcpServer.base}/call`, byRest))).content[0].text).toBe('first')

  const second = await publish(mcpServer, TOOLS)
  expect(second.state).toBe('active')
  expect(second.diff.changed).toEqual([{ name: 'call_quote', fields: expect.arrayContaining(['binding']) }])
  expect(second.diff.summary).toEqual([
    'The tool call_quote runs version 2 of the function quote; before, it ran version 1.',
  ])
  expect(await run()).toBe('second')
  await ok(call('POST', `${mcpServer.base}/versions/1/activate`, { as: workspace.operator, body: {} }))
  expect(await run()).toBe('first')
})

test('function tool called with a version: argument refused (T38)', async () => {
  const workspace = await createTestWorkspace()
  await deploy(workspace, 'first')
  await deploy(workspace, 'second')
  const mcpServer = await publishMcpServer(workspace, 'chosen', TOOLS)
  const token = await tokenFor(mcpServer, scopesOf(mcpServer, 'call_quote'))
  const { result } = (await callTool(mcpServer.path, token, 'call_quote', { version: 1 })).body
  expect([result.isError, result.content[0].text]).toEqual([
    true,
    expect.stringContaining('validation_failed'),
  ])
})

test('function tool, function deleted: answers not_found', async () => {
  const workspace = await createTestWorkspace()
  const { id } = await deploy(workspace, 'first')
  const mcpServer = await publishMcpServer(workspace, 'deleted', TOOLS)
  const token = await tokenFor(mcpServer, scopesOf(mcpServer, 'call_quote'))
  await ok(call('DELETE', `/v1/functions/${id}`, { as: workspace.operator }))
  await deploy(workspace, 'another function of the same name')
  const { result } = (await callTool(mcpServer.path, token, 'call_quote')).body
  expect([result.isError, result.content[0].text]).toEqual([true, expect.stringContaining('not_found')])
})

test('flow tool, flow published again: the old version runs on every path until the next publication (T24)', async () => {
  const workspace = await createTestWorkspace()
  const as = workspace.operator
  const experimental = { workspace_id: workspace.workspaceId, experimental: ['mcp.flow_tools'] }
  await ok(call('POST', '/v1/services/configure', { as, body: experimental }))
  const executions = new Executions(workspace)
  const publishPrice = (said: string) =>
    executions.publish(`  - a: { set: { said: ${said} } }\n`, { name: 'price' })
  await publishPrice('first')
  const tools = { 'flows:price:run': { enabled: true } }
  const mcpServer = await publishMcpServer(workspace, 'pinned', tools)
  await executions.publish(
    '  - ask: { call: mcp, with: { server: pinned, tool: run_price, arguments: {} } }\n',
    {
      name: 'caller',
    },
  )
  const token = await tokenFor(mcpServer, scopesOf(mcpServer, 'run_price'))
  const onWire = async () =>
    (await callTool(mcpServer.path, token, 'run_price')).body.result.structuredContent.output.said
  const byRest = async () => {
    const body = { tool: 'run_price', arguments: {} }
    return (await ok(call('POST', `${mcpServer.base}/call`, { as, body }))).structured_content.output.said
  }
  const inFlow = async () =>
    (await executions.ended(await executions.start('caller'))).output.structuredContent.output.said
  const onEachPath = () => Promise.all([onWire(), byRest(), inFlow()])
  const thrice = (said: string) => [said, said, said]

  expect(await onEachPath()).toEqual(thrice('first'))
  await publishPrice('second')
  // The output of the flow for a direct caller.
  expect((await executions.ended(await executions.start('price'))).output).toEqual({ said: 'second' })
  expect(await onEachPath()).toEqual(thrice('first'))

  const { state, diff } = await publish(mcpServer, tools)
  expect(state).toBe('active')
  expect(diff.changed).toEqual([{ name: 'run_price', fields: ['binding'] }])
  expect(await onEachPath()).toEqual(thrice('second'))

  await ok(call('POST', `${mcpServer.base}/versions/1/activate`, { as, body: {} }))
  expect(await onEachPath()).toEqual(thrice('first'))
})
