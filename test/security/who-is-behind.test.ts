// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Walks every pair of routes on which flows, functions, events, documents and tools start one another, and checks that the
 * people behind each execution, who may not decide in it (`fourEyes`), are those who took part.
 */

import { beforeAll, expect, test } from 'vitest'
import { sign } from '../../src/features/runs/triggers/standard-webhooks.ts'
import { addAccount, bearer } from '../support/clients/browser.ts'
import {
  askToken,
  callTool,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  scopesOf,
} from '../support/clients/mcp.ts'
import { Admins, post } from '../support/fixtures/admins.ts'
import { Executions } from '../support/fixtures/executions.ts'
import { functionScheduleId } from '../support/fixtures/function-triggers.ts'
import { onlyScheduleOf, publishScheduled, scheduleId } from '../support/fixtures/schedules.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { withReadingClient } from '../support/stack/temporal.ts'
import { configure } from '../support/stack/workspace-settings.ts'

type Person = 'starter' | 'publisher' | 'deployer' | 'repeater'
/** A route begins at a request of the starter or a due time (`outside`), at an execution, or at a run of a function. */
type From = 'outside' | 'flow' | 'fn'

interface Route {
  readonly from: From
  /** `how>what it starts`. */
  readonly name: string
  readonly to: 'flow' | 'fn'
  /** The people whom the route adds to those behind its beginning. */
  readonly brings: readonly Person[]
}

const TRIGGERED = { flow: ['publisher'], fn: ['deployer'] } as const
const EVENTS = ['publish>flow', 'publish>fn', 'write>flow', 'write>fn']
const NAMES: Readonly<Record<From, readonly string[]>> = {
  outside: [
    ...EVENTS,
    'start>flow',
    'invoke>fn',
    'mcp>flow',
    'mcp>fn',
    'webhook>flow',
    'schedule>flow',
    'schedule>fn',
  ],
  flow: [...EVENTS, 'invoke>fn', 'sub>flow', 'mcp>flow', 'mcp>fn', 'rerun>flow'],
  fn: [...EVENTS, 'start>flow', 'invoke>fn', 'fail>fn'],
}

function broughtBy(from: From, how: string, to: Route['to']): readonly Person[] {
  if (how === 'rerun' || how === 'fail') return ['repeater']
  if (how === 'webhook' || how === 'schedule') return TRIGGERED[to]
  const triggered = how === 'publish' || how === 'write' ? TRIGGERED[to] : []
  return from === 'outside' ? ['starter', ...triggered] : triggered
}

const ROUTES: readonly Route[] = Object.entries(NAMES).flatMap(([from, names]) =>
  names.map((name) => {
    const [how = '', to] = name.split('>') as [string, Route['to']]
    return { from: from as From, name, to, brings: broughtBy(from as From, how, to) }
  }),
)
const LENGTH_MAX = 8

/** A flow that an MCP tool starts has its first version, which calls no tools. A chain fails once, since one repair is for all. */
const mayFollow = (chain: readonly Route[], { from, name }: Route): boolean =>
  chain.at(-1)?.to === from &&
  !(name.startsWith('mcp') && chain.at(-1)?.name === 'mcp>flow') &&
  !(name === 'fail>fn' && chain.some((before) => before.name === name))

const route = (from: From, name: string) =>
  ROUTES.find((one) => one.from === from && one.name === name) as Route
/** The route from outside that leads to an execution, or to a run. */
const ENTRY = { flow: route('outside', 'start>flow'), fn: route('outside', 'invoke>fn') }

/**
 * The way in which a flow or function was started, as its input shows it: an event has one form, whether it was published or
 * written, and a webhook or a schedule starts a flow that runs `hop` as a subflow.
 */
const cameBy = ({ name }: Route): string =>
  name.replace(/^(?:publish|write)>/, 'event>').replace(/^(?:webhook|schedule)>flow/, 'sub>flow')
/** The step with which a flow or function begins a route: it publishes and writes in one way, whichever trigger waits. */
const goesBy = ({ from, name }: Route): string => `${from} ${name.replace(/^(publish|write)>.*/, '$1')}`
const keysOf = (a: Route | undefined, b: Route): string[] => [
  ...(a === undefined ? [] : [`${cameBy(a)} ${goesBy(b)}`]),
  `${b.from} ${b.name}`,
]

/** The shortest chains from outside to each route, and to each pair of routes that may follow each other. */
function beginnings(): Route[][] {
  const pairs = ROUTES.flatMap((a) => ROUTES.filter((b) => mayFollow([a], b)).map((b) => [a, b]))
  return [...ROUTES.map((one) => [one]), ...pairs].map((chain) => {
    const [{ from }] = chain as [Route]
    return from === 'outside' ? chain : [ENTRY[from], ...chain]
  })
}

/** Chains that begin outside, have all routes and all pairs, and end with an execution. */
function chainsOfAllPairs(): Route[][] {
  const done = new Set<string>()
  const isNew = (a: Route | undefined, b: Route) => keysOf(a, b).some((key) => !done.has(key))
  const chains: Route[][] = []
  for (const first of beginnings()) {
    const chain: Route[] = []
    const add = (next: Route) => {
      for (const key of keysOf(chain.at(-1), next)) done.add(key)
      chain.push(next)
    }
    if (!first.some((one, at) => isNew(first[at - 1], one))) continue
    first.forEach(add)
    while (chain.length < LENGTH_MAX) {
      const next = ROUTES.find((one) => mayFollow(chain, one) && isNew(chain.at(-1), one))
      if (next === undefined) break
      add(next)
    }
    if (chain.at(-1)?.to === 'fn') add(route('fn', 'start>flow'))
    chains.push(chain)
  }
  return chains
}

/** Takes the first route of its plan; the rest is the plan of what it starts. */
const FUNCTION = `export default async (given, { tenon }) => {
  const { mark, plan: [route, ...plan] } = given.data?.document ?? given.data ?? given
  const next = { mark, plan }
  if (route === 'publish>flow') await tenon.events.publish('hop.flow', next)
  if (route === 'publish>fn') await tenon.events.publish('hop.fn', next)
  if (route === 'write>flow') await tenon.collections.create('toflow', next)
  if (route === 'write>fn') await tenon.collections.create('tofn', next)
  if (route === 'start>flow') await tenon.flows.start('hop', next)
  if (route === 'invoke>fn') await tenon.functions.invoke('hop', next)
  if (route === 'fail>fn') await tenon.functions.invoke('failing', next, { respond_async: true })
  return {}
}`
const REPAIRED = FUNCTION.replace('plan: [route, ...plan]', 'plan').replace(
  'const next',
  "const route = 'invoke>fn'; const next",
)

const ON =
  'schedule: { on: { any: [{ with: { type: hop.flow } }, { with: { type: collections.toflow.created } }] } }\n'
const NEXT = "'${ $context | {mark, plan} }'"
const task = (route: string, does: string) =>
  `  - ${route.replace('>', '-')}: { if: '\${ $context.route == "${route}" }', ${does} }`
const TASKS = [
  `  - read: { set: '\${ (if type == "array" then .[0] else . end) | (.document // .) | {mark, route: .plan[0], plan: .plan[1:]} }', export: { as: '\${ . }' } }`,
  task('publish>flow', `emit: { event: { with: { type: hop.flow, data: ${NEXT} } } }`),
  task('publish>fn', `emit: { event: { with: { type: hop.fn, data: ${NEXT} } } }`),
  task('write>flow', `call: collection.create, with: { name: toflow, document: ${NEXT} }`),
  task('write>fn', `call: collection.create, with: { name: tofn, document: ${NEXT} }`),
  task('invoke>fn', `call: function.invoke, with: { id: hop, input: ${NEXT} }`),
  task('sub>flow', `run: { workflow: { namespace: n, name: hop, version: latest, input: ${NEXT} } }`),
]
const TOOL_ARGUMENTS = "'${ {input: ($context | {mark, plan})} }'"
const TOOL_TASKS = [
  task('mcp>flow', `call: mcp, with: { server: hops, tool: run_hop, arguments: ${TOOL_ARGUMENTS} }`),
  task('mcp>fn', `call: mcp, with: { server: hops, tool: call_hop, arguments: ${TOOL_ARGUMENTS} }`),
]

let workspace: TestWorkspace
let people: Record<Person, { readonly id: string; readonly as: Caller }>
let key: Caller
let server: PublishedMcpServer
let tools: Caller
let webhook: { readonly url: string; readonly secret: string }
let failing: string
let asPublisher: TestWorkspace

async function deploy(name: string, source: string, more: object = {}): Promise<string> {
  const config = {
    scopes: ['events:write', 'collections:write', 'flows:run', 'functions:write'],
    timeout: '60s',
    ...more,
  }
  const body = { workspace_id: workspace.workspaceId, name, source, config }
  return (await post(people.deployer.as, '/v1/functions', body)).id
}

/** @returns a token of a client that the starter has made */
async function toolCaller(): Promise<Caller> {
  const made = await post(people.starter.as, `${server.base}/clients`, { name: 'agent' })
  const wanted = { resource: server.url, scope: scopesOf(server, 'run_hop', 'call_hop') }
  const { body } = await askToken(wanted, { id: made.client_id, secret: made.client_secret })
  return bearer(body['access_token'])
}

beforeAll(async () => {
  workspace = await createTestWorkspace()
  const admins = new Admins(workspace)
  const claims = { role: 'tenant_admin', tenant_id: workspace.tenantId }
  const person = () => admins.person(addAccount(workspace.operator, claims))
  const [starter, publisher, deployer, repeater] = await Promise.all([person(), person(), person(), person()])
  people = { starter, publisher, deployer, repeater }
  asPublisher = { ...workspace, operator: publisher.as }
  await configure(workspace, { experimental: ['mcp.flow_tools'] })
  key = { apikey: (await admins.newKey(starter.as)).key }
  failing = await deploy('failing', "export default () => { throw new Error('not yet') }")
  await deploy('hop', FUNCTION, { triggers: [{ topics: ['hop.fn', 'collections.tofn.created'] }] })
  const executions = new Executions(asPublisher)
  await executions.publish(TASKS.join('\n'), { name: 'hop', more: ON })
  server = await publishMcpServer(workspace, 'hops', {
    'flows:hop:run': { enabled: true },
    'functions:hop:invoke': { enabled: true },
  })
  tools = await toolCaller()
  await executions.publish([...TASKS, ...TOOL_TASKS].join('\n'), { name: 'hop', more: ON })
  const run =
    "[{ hop: { run: { workflow: { namespace: n, name: hop, version: latest, input: '${ .body }' } } } }]"
  webhook = (await publishScheduled(asPublisher, 'hook', '{ webhook: {} }', run)).body.webhooks[0]
})

interface Plan {
  readonly mark: string
  readonly plan: readonly string[]
}

const BEGIN: Readonly<Record<string, (next: Plan) => Promise<unknown>>> = {
  'publish>flow': (data) => post(key, '/v1/events/publish', { topic: 'hop.flow', data }),
  'publish>fn': (data) => post(key, '/v1/events/publish', { topic: 'hop.fn', data }),
  'write>flow': (next) => post(key, '/v1/collections/toflow/documents', next),
  'write>fn': (next) => post(key, '/v1/collections/tofn/documents', next),
  'start>flow': (input) => post(key, '/v1/flows/hop/executions', { input }),
  'invoke>fn': (next) => post(key, '/v1/functions/hop/invoke', next),
  'mcp>flow': (input) => callTool(server.path, tools, 'run_hop', { input }),
  'mcp>fn': (input) => callTool(server.path, tools, 'call_hop', { input }),
  'webhook>flow': async (next) => {
    const [id, seconds, text] = [unique('msg'), Math.floor(Date.now() / 1_000), JSON.stringify(next)]
    const signature = sign(webhook.secret, id, seconds, Buffer.from(text))
    const headers = { 'webhook-id': id, 'webhook-timestamp': String(seconds), 'webhook-signature': signature }
    await ok(call('POST', new URL(webhook.url).pathname, { body: text, headers }))
  },
  'schedule>flow': async (next) => {
    const name = unique('cron')
    const run = `[{ hop: { run: { workflow: { namespace: n, name: hop, version: latest, input: ${JSON.stringify(next)} } } } }]`
    await publishScheduled(asPublisher, name, '{ cron: 0 0 1 1 * }', run)
    const schedule = scheduleId(workspace, await onlyScheduleOf(workspace, name))
    await withReadingClient((client) => client.schedule.getHandle(schedule).trigger())
  },
  'schedule>fn': async (input) => {
    const name = unique('cron')
    const id = await deploy(name, FUNCTION, { schedule: { cron: '0 0 1 1 *', input } })
    const schedule = await functionScheduleId({ id, name, at: workspace })
    await withReadingClient((client) => client.schedule.getHandle(schedule).trigger())
  },
}

interface Found {
  readonly id: string
  readonly ended: boolean
  readonly left: number
  readonly people: readonly Person[]
}

/** The executions of a chain, with the people behind each, longest plan first. */
async function executionsOf(mark: string): Promise<Found[]> {
  const rows = await asSuperuser<{ id: string; ended: boolean; left: number; people: string[] }>(
    `with tenant as materialized (select set_config('tenon.tenant', $1, true) as id)
     select e.id, e.ended_at is not null as ended, jsonb_array_length(hop -> 'plan') as "left",
       tenon.people_behind(e.started_by || e.caused_by, e.started_at) as people
     from tenant join tenon.executions e on e.tenant_id = tenant.id
       cross join lateral (select case when jsonb_typeof(e.input) = 'array' then e.input -> 0 else e.input end as data) d
       cross join lateral (select coalesce(data -> 'document', data) as hop) h
     where hop ->> 'mark' = $2 order by "left" desc, e.id`,
    [workspace.tenantId, mark],
  )
  const names = Object.entries(people) as [Person, { id: string }][]
  return rows.map(({ people: behind, ...row }) => {
    return { ...row, people: names.flatMap(([name, { id }]) => (behind.includes(id) ? [name] : [])) }
  })
}

/** Reruns the execution that has come to a `rerun` of its plan, with the rest of the plan. */
async function rerun(mark: string, plan: readonly string[]): Promise<void> {
  const { id } = await eventually(async () =>
    (await executionsOf(mark)).find(({ left, ended }) => left === plan.length + 1 && ended),
  )
  await post(people.repeater.as, `${workspace.flows}/executions/${id}/rerun`, { input: { mark, plan } })
}

/** The people behind each execution of a chain: those whom the routes up to it add. */
function expectedOf(chain: readonly Route[]): Omit<Found, 'id' | 'ended'>[] {
  return chain.flatMap(({ to }, at) => {
    if (to !== 'flow') return []
    const behind = new Set(chain.slice(0, at + 1).flatMap(({ brings }) => brings))
    const names = Object.keys(people) as Person[]
    return [{ left: chain.length - at - 1, people: names.filter((name) => behind.has(name)) }]
  })
}

async function redriveAll(count: number): Promise<void> {
  await eventually(async () => {
    const [{ dead = 0 } = {}] = await asSuperuser<{ dead: number }>(
      'select count(*)::integer as dead from tenon.function_runs where function_id = $1 and is_dead_letter',
      [failing],
    )
    return dead >= count || undefined
  })
  const body = { workspace_id: workspace.workspaceId, name: 'failing', source: REPAIRED }
  await post(people.deployer.as, '/v1/functions', body)
  for (let after = ''; after !== null; ) {
    const path = `/v1/functions/${failing}/redrive${after === '' ? '' : `?after=${after}`}`
    after = (await ok(call('POST', path, { as: people.repeater.as }))).next
  }
}

test('people behind an execution: after each pair of routes: they are those whom the routes up to it add', async () => {
  const chains = chainsOfAllPairs().map((chain) => ({ chain, mark: unique('chain') }))
  const walk = async ({ chain, mark }: (typeof chains)[number]) => {
    const plan = chain.map(({ name }) => name)
    await BEGIN[plan[0] ?? '']?.({ mark, plan: plan.slice(1) })
    for (const [at, name] of plan.entries()) if (name === 'rerun>flow') await rerun(mark, plan.slice(at + 1))
    await eventually(async () => (await executionsOf(mark)).find(({ left }) => left === 0))
  }
  const redrives = chains.filter(({ chain }) => chain.some(({ name }) => name === 'fail>fn')).length
  await Promise.all([redriveAll(redrives), ...chains.map(walk)])
  for (const { chain, mark } of chains) {
    const seen = (await executionsOf(mark)).map(({ left, people: behind }) => ({ left, people: behind }))
    expect(seen, chain.map(({ from, name }) => `${from}: ${name}`).join(', ')).toEqual(expectedOf(chain))
  }
})
