/**
 * Fuzzes every operation and other route with the requests that a seed determines: half of them valid, the others changed in
 * some places. A fresh workspace for each round of requests, in which those that end things come last, keeps them deep.
 */

import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { inject } from 'vitest'
import type { AnyOperation } from '../../../src/core/operation.ts'
import { isProblemCode, PROBLEMS } from '../../../src/core/problem-catalogue.ts'
import { OPERATIONS } from '../../../src/features/index.ts'
import type { World } from '../../isolation/sweep-rows.ts'
import { askToken } from '../../support/clients/mcp.ts'
import {
  type Caller,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
  tokenOf,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'
import { slowdown } from '../../support/stopwatch.ts'
import { mutated, type WireRequest, wireOf } from './mutate.ts'
import { type FuzzRequest, routeRequest, validRequest } from './requests.ts'
import { hostedUrl, ROUTES } from './routes.ts'
import { Things } from './things.ts'

/** Requests of each operation and route in a round. */
const EACH_PER_ROUND = 6
const LANES = 4
const ANSWER_MS = 120_000

export interface FuzzReport {
  readonly cases: number
  /** Of each caller: how many requests were sent, and how many were answered with 2xx or 3xx. */
  readonly callers: Readonly<Record<string, { sent: number; accepted: number }>>
  readonly accepted: number
  /** Operations and routes of which no request was accepted. */
  readonly untouched: readonly string[]
  readonly failures: readonly string[]
}

/** An operation or another route. */
interface Target {
  readonly name: string
  readonly method: string
  readonly caller: fc.Arbitrary<string>
  readonly request: (world: World) => fc.Arbitrary<FuzzRequest>
}

const TARGETS: readonly Target[] = [
  ...OPERATIONS.map((operation) => ({
    name: operation.name,
    method: operation.http.method,
    caller: callerOf(operation),
    request: (world: World) => validRequest(operation, world),
  })),
  ...Object.entries(ROUTES).map(([name, route]) => ({
    name,
    method: route.method,
    caller: fc.constant<string>(route.caller),
    request: (world: World) => routeRequest(route, world),
  })),
]

interface Case {
  readonly seed: number
  readonly target: Target
}

interface Tally {
  readonly callers: Record<string, { sent: number; accepted: number }>
  readonly reached: Set<string>
  readonly failures: string[]
}

/** Consecutive seeds take the targets in turn, so that a case is repeated by its seed alone. */
const caseOf = (seed: number): Case => ({
  seed,
  target: TARGETS[seed % TARGETS.length] as Target,
})

/** @param cases number of requests @param seed of the first; each further one has the next */
export async function fuzzOperations(
  cases: number,
  seed: number,
  onRound = (_line: string) => {},
): Promise<FuzzReport> {
  const tally: Tally = { callers: {}, reached: new Set(), failures: [] }
  const size = EACH_PER_ROUND * TARGETS.length
  for (let first = 0; first < cases; first += size) {
    const round = Array.from({ length: Math.min(size, cases - first) }, (_, n) => caseOf(seed + first + n))
    await runRound(round, tally)
    const { sent, accepted } = totalOf(tally)
    onRound(`${sent} requests, ${accepted} accepted, ${tally.failures.length} failures`)
  }
  const untouched = TARGETS.map(({ name }) => name).filter((name) => !tally.reached.has(name))
  const { sent, accepted } = totalOf(tally)
  return { cases: sent, accepted, callers: tally.callers, untouched, failures: tally.failures }
}

function totalOf({ callers }: Tally): { sent: number; accepted: number } {
  const all = Object.values(callers)
  return {
    sent: all.reduce((sum, { sent }) => sum + sent, 0),
    accepted: all.reduce((sum, { accepted }) => sum + accepted, 0),
  }
}

const SETTLES =
  /\.(suspend|rotate\w*|cancel|reset\w*|configure)$|^(quota\.set|(account|user|mcp_server)\.update)$/

/** Later stages take away what earlier ones need: requests that change settings, that delete, and that suspend everything. */
function stageOf({ target: { name, method } }: Case): number {
  if (/^(tenant|workspace)\.(suspend|resume)$/.test(name)) return 3
  if (method === 'DELETE') return 2
  return SETTLES.test(name) ? 1 : 0
}

async function runRound(cases: readonly Case[], tally: Tally): Promise<void> {
  const workspace = await createTestWorkspaceWithStorage()
  await openCollectionsToAnon(workspace)
  const things = await Things.create(workspace)
  const callers = await callersOf(workspace, things.worldFor('', 0))
  for (const stage of [0, 1, 2, 3]) {
    const waiting = cases.filter((one) => stageOf(one) === stage)
    const lane = async () => {
      for (let one = waiting.shift(); one !== undefined; one = waiting.shift())
        await sendCase(one, things, callers, tally)
    }
    await Promise.all(Array.from({ length: LANES }, lane))
  }
}

type Callers = Readonly<Record<string, Caller>>

async function callersOf(workspace: TestWorkspace, world: World): Promise<Callers> {
  const { tenantId: tenant_id, workspaceId: workspace_id, service, anon, operator } = workspace
  const { body: agent } = await askToken({ resource: hostedUrl(world), scope: 'mcp:sweep:notes_list' })
  return {
    ...{ operator, service, anon, nobody: {} },
    agent: { authorization: `Bearer ${agent['access_token']}` },
    tenant_admin: await tokenOf({ roles: ['tenant_admin'], tenant_id }),
    workspace_admin: await tokenOf({ roles: ['workspace_admin'], tenant_id, workspace_id }),
    user: await userToken(workspace, 'mia'),
  }
}

/** Mostly the caller that may do most, so that requests are not refused before they are read. */
function callerOf({ roles }: AnyOperation): fc.Arbitrary<string> {
  const [first = 'service', ...others] = roles.filter((role) => role !== 'operator' || roles.length === 1)
  return fc.oneof(
    { weight: 12, arbitrary: fc.constant(first) },
    { weight: 3, arbitrary: fc.constantFrom(first, ...others) },
    {
      weight: 1,
      arbitrary: fc.constantFrom('operator', 'tenant_admin', 'workspace_admin', 'service', 'user', 'anon'),
    },
  )
}

/** Seeds that are near each other begin alike in the generator of fast-check. */
const scattered = (seed: number): number => createHash('sha256').update(String(seed)).digest().readInt32BE()

/** What a seed determines: the caller, and the request to the things of this world. */
function chosen({ seed, target }: Case, world: World): { caller: string; request: WireRequest } {
  const arbitrary = fc
    .record({ isValid: fc.boolean(), isEdited: fc.nat(9).map((n) => n === 0), caller: target.caller })
    .chain(({ isValid, isEdited, caller }) =>
      target
        .request(world)
        .chain((request) => (isValid ? fc.constant(request) : mutated(request)))
        .chain((request) => wireOf(request, !isValid && isEdited))
        .map((request) => ({ caller, request })),
    )
  const [one] = fc.sample(arbitrary, { seed: scattered(seed), numRuns: 1 })
  if (one === undefined) throw new Error('Nothing was generated')
  return one
}

async function sendCase(one: Case, things: Things, callers: Callers, tally: Tally): Promise<void> {
  const { caller, request } = chosen(one, things.worldFor(one.target.name, one.seed))
  tally.callers[caller] ??= { sent: 0, accepted: 0 }
  const counted = tally.callers[caller]
  counted.sent += 1
  const reply = await send(request, callers[caller] ?? {})
  if (reply.status >= 200 && reply.status < 400) {
    counted.accepted += 1
    tally.reached.add(one.target.name)
    things.keep(one.target.name, reply.text)
  }
  if (!isFailure(reply)) return
  const failure = await describe(one, caller, request, reply)
  console.log(failure)
  tally.failures.push(failure)
}

interface Answer {
  readonly status: number
  readonly code: string | undefined
  readonly text: string
  readonly requestId: string
}

async function send({ method, path, headers, body }: WireRequest, as: Caller): Promise<Answer> {
  try {
    const response = await fetch(`${inject('tenon').url}${path}`, {
      ...{
        method,
        headers: { ...as, ...headers },
        redirect: 'manual',
        signal: AbortSignal.timeout(ANSWER_MS),
      },
      ...(body !== undefined && { body }),
    })
    const text = response.headers.get('content-type')?.startsWith('text/event-stream')
      ? ''
      : await response.text()
    if (text === '') await response.body?.cancel().catch(() => {})
    const code = response.headers.get('x-problem-code') ?? /"code": ?"(\w+)"/.exec(text)?.[1]
    return { status: response.status, code, text, requestId: response.headers.get('x-request-id') ?? '' }
  } catch (error) {
    const { cause } = error as { cause?: unknown }
    return { status: 0, code: undefined, text: `${error}: ${cause}`, requestId: '' }
  }
}

/** Problems of servers and code of the tenant, which the request has reached: no fault of the platform. */
const OF_TENANTS = /^(upstream|function|run|execution|tool)_/

function isFailure({ status, code = '' }: Answer): boolean {
  if (status === 0) return true
  return status >= 500 && !(isProblemCode(code) && PROBLEMS[code].status === status && OF_TENANTS.test(code))
}

/** The request so that it can be sent again, the answer, how busy the machine is, and what the log says. */
async function describe(
  { seed, target }: Case,
  caller: string,
  request: WireRequest,
  answer: Answer,
): Promise<string> {
  const { method, path, headers, body } = request
  const text = body === undefined ? '' : body.toString('latin1').slice(0, 4_000)
  return [
    `${target.name} as ${caller}: ${answer.status} ${answer.code ?? ''}; again: npm run test:fuzz -- --seed ${seed} --cases 1`,
    `  ${method} ${path} ${JSON.stringify(headers)} ${text}`,
    `  answered: ${answer.text.slice(0, 1_000)}`,
    `  slowdown of the machine: ${slowdown().toFixed(1)}`,
    ...(await linesOf(answer.requestId)).map((line) => `  log: ${line.slice(0, 2_000)}`),
  ].join('\n')
}

async function linesOf(requestId: string): Promise<string[]> {
  if (requestId === '') return []
  const { logs } = inject('tenon')
  const files = (await readdir(logs)).filter((file) => /^(api|worker)/.test(file))
  const texts = await Promise.all(files.map((file) => readFile(join(logs, file), 'utf8')))
  return texts.flatMap((text) => text.split('\n').filter((line) => line.includes(requestId)))
}
