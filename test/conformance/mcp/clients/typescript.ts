/** The official SDKs for TypeScript: version 1, and version 2 with each protocol. */

import { deepStrictEqual as equal, ok } from 'node:assert/strict'
import { auth } from '@modelcontextprotocol/sdk/client/auth.js'
import {
  Agent,
  type Connected,
  connectLegacy,
  connectModern,
  type LegacyClient,
  type ModernClient,
} from '../../../support/clients/mcp-sdk.ts'
import { type Check, IDENTITIES, type World } from './world.ts'

type Client = LegacyClient | ModernClient
type Connect = (url: string, credentials: { authProvider: Agent }) => Promise<Connected<Client>>

const CLIENTS: Readonly<Record<string, Connect>> = {
  'TypeScript SDK 1': connectLegacy,
  'TypeScript SDK 2, legacy': (url, credentials) => connectModern(url, credentials, 'legacy'),
  'TypeScript SDK 2, auto': (url, credentials) => connectModern(url, credentials, 'auto'),
  'TypeScript SDK 2, 2026-07-28': connectModern,
}

/** The result of a tool, in the common part of both SDKs. */
interface Result {
  readonly isError?: boolean
  readonly structuredContent?: Record<string, unknown>
  readonly content: readonly { readonly text?: string }[]
  readonly _meta?: Record<string, unknown>
}

export function typescriptChecks(world: World): Check[] {
  return Object.entries(CLIENTS).flatMap(([name, connect]) =>
    IDENTITIES.map((identity) => ({
      name: `${name}, ${identity} client`,
      run: () => drive(world, connect, identity),
    })),
  )
}

async function drive(world: World, connect: Connect, identity: (typeof IDENTITIES)[number]): Promise<void> {
  const newAgent = () => new Agent(world.visit, identity === 'document' ? world.documentId : undefined)
  const agent = newAgent()
  const session = await connect(world.desk, { authProvider: agent })
  const use = user(session, agent, world.desk)
  const { client_id } = agent.clientInformation() as unknown as { client_id: string }
  equal(client_id === world.documentId, identity === 'document')
  await checkTools(session.client, use)
  await checkStepUp(agent, use)
  await checkRefresh(agent, use)
  await checkContent(session.client, world)
  await checkRun(use)
  await session.client.close()
  const second = newAgent()
  const platform = await connect(world.platform, { authProvider: second })
  const usePlatform = user(platform, second, world.platform)
  ok((await platform.client.listTools()).tools.some(({ name }) => name === 'flow_create'))
  equal((await usePlatform('flow_list', { workspace_id: world.workspaceId })).isError ?? false, false)
  equal(
    (await usePlatform('flow_create', { workspace_id: world.workspaceId, source: 'do: []' })).isError,
    true,
  )
  await platform.client.close()
}

type Use = (name: string, args?: Record<string, unknown>) => Promise<Result>

/** Calls a tool, and lets the user consent if it needs a further scope. */
function user({ client, finish }: Connected<Client>, agent: Agent, serverUrl: string): Use {
  return async (name, args = {}) => {
    const call = async () => (await client.callTool({ name, arguments: args })) as Result
    try {
      const result = await call()
      const missing = result._meta?.['tenon/insufficient_scope'] as { required: string[]; granted: string[] }
      if (missing === undefined) return result
      // SDK 1 refreshes its token after a challenge. The error tells its host which scopes to ask for.
      agent.saveTokens(undefined)
      const scope = [...missing.granted, ...missing.required].join(' ')
      equal(await auth(agent as never, { serverUrl, scope }), 'REDIRECT')
    } catch (error) {
      if (!/unauthorized/i.test(String(error))) throw error
    }
    await finish()
    return call()
  }
}

async function checkTools(client: Client, use: Use): Promise<void> {
  const { tools } = await client.listTools()
  const names = tools.map(({ name }) => name)
  for (const name of ['orders_list', 'orders_create', 'call_quote', 'run_deliver', 'run_status'])
    ok(names.includes(name), `${name} is not listed: ${names}`)
  const { data } = (await use('orders_list')).structuredContent as { data: { number: string }[] }
  ok(data.some(({ number }) => number === 'A1'))
  equal((await use('call_quote', { cents: 1 })).structuredContent?.['price'], 501)
  const wrong = await use('orders_list', { status: 'no such' })
  ok(wrong.isError === true && wrong.content[0]?.text?.includes('late'), JSON.stringify(wrong))
}

async function checkStepUp(agent: Agent, use: Use): Promise<void> {
  const before = agent.requestedScopes.length
  const made = await use('orders_create', { number: 'B1', status: 'open' })
  equal([made.isError ?? false, made.structuredContent?.['number']], [false, 'B1'])
  equal(agent.requestedScopes.length, before + 1)
  ok(agent.requestedScopes.at(-1)?.includes('mcp:desk:orders_create'))
}

async function checkRefresh(agent: Agent, use: Use): Promise<void> {
  const before = agent.tokens() as unknown as { access_token: string; refresh_token: string }
  agent.saveTokens({ ...before, access_token: 'expired' })
  const requestedBefore = agent.requestedScopes.length
  equal((await use('orders_list')).isError ?? false, false)
  const after = agent.tokens() as unknown as typeof before
  ok(after.access_token !== 'expired' && after.refresh_token !== before.refresh_token)
  equal(agent.requestedScopes.length, requestedBefore)
}

async function checkContent(client: Client, { orderUri }: World): Promise<void> {
  const { resources } = await client.listResources()
  ok(resources.some(({ uri }) => uri === 'guide://refunds'))
  const { resourceTemplates } = await client.listResourceTemplates()
  ok(resourceTemplates.some(({ uriTemplate }) => uriTemplate.startsWith('tenon://orders/')))
  for (const [uri, text] of [
    ['guide://refunds', 'five days'],
    [orderUri, 'A1'],
  ] as const) {
    const { contents } = await client.readResource({ uri })
    ok(JSON.stringify(contents).includes(text), uri)
  }
  ok((await client.listPrompts()).prompts.some(({ name }) => name === 'remind'))
  const { messages } = await client.getPrompt({ name: 'remind', arguments: { customer: 'Ann' } })
  ok(JSON.stringify(messages).includes('Remind Ann.'))
}

async function checkRun(use: Use): Promise<void> {
  const started = (await use('run_deliver')).structuredContent ?? {}
  const { run } = started
  ok(typeof run === 'string' && started['status'] !== 'completed', JSON.stringify(started))
  for (let polls = 0; ; polls++) {
    const { structuredContent } = await use('run_status', { run })
    if (structuredContent?.['status'] === 'completed') break
    ok(polls < 100, JSON.stringify(structuredContent))
    await new Promise((done) => setTimeout(done, 200))
  }
  const result = await use('run_result', { run })
  ok(JSON.stringify(result.structuredContent).includes('"delivered":true'), JSON.stringify(result))
}
