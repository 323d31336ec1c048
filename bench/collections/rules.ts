/**
 * Measures a page of documents under a rule against the same page without one and against PostgREST with an equal policy, and
 * a user's token against an anon key, in one run.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Started, startPlatform } from '../../test/support/stack/start.ts'
import { usedUs } from '../cpu.ts'
import { sender } from '../http.ts'
import { contest, interleaved, print, sized, warmUp } from '../measure.ts'
import { CONNECTIONS } from './competitors.ts'
import { COLLECTION, DOCUMENTS } from './documents.ts'
import { loadOwnedDocuments, OWNERS, type OwnedDocuments, ownerOf, TABLE } from './owned-documents.ts'
import { startPostgrest } from './postgrest.ts'

const PAGE_ROUNDS = 2_000
const TOKEN_ROUNDS = 4_000
const TURN = { rounds: 7, ms: 800 }
const LANES = [16, CONNECTIONS]
const SIZE = 20
/** Users that send at the same time; each has a token, as after its sign-in. */
const USERS = sized(100, 4)

type Works = Readonly<Record<string, () => Promise<string>>>

const [BY_KEY, BY_RULE, PEER] = ['service key, ?_owner=eq.…', 'user, rule', 'PostgREST, policy'] as const
/** Name of each server in the supervisor; the database's CPU time is added. */
const SERVERS: Readonly<Record<string, string>> = { [BY_KEY]: 'api', [BY_RULE]: 'api', [PEER]: 'postgrest' }

/** Prints all results; takes about two minutes. */
export async function rules(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const started = await startPlatform(dir, { lasting: true, checkReplies: false })
  try {
    const documents = await loadOwnedDocuments(started.running)
    process.stdout.write(`${DOCUMENTS} documents of ${OWNERS} owners\n`)
    await tokens(documents)
    await pages(started, { ...(await ours(documents)), ...(await peer(started, dir)) })
  } finally {
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

/** @returns a function that sends the next request of the list, in turn */
function turns(requests: readonly (() => Promise<string>)[]): () => Promise<string> {
  let n = 0
  return () => (requests[n++ % requests.length] as () => Promise<string>)()
}

/** One request for each of the users. */
const ofUsers = async (request: (owner: string) => Promise<() => Promise<string>>) =>
  turns(await Promise.all(Array.from({ length: USERS }, (_, n) => request(ownerOf(n)))))

/** The first page of each owner, with a service key and with a token of the owner. */
async function ours({ url, apikey, tokenOf }: OwnedDocuments): Promise<Works> {
  const path = `/v1/collections/${COLLECTION}/documents?page[size]=${SIZE}`
  const byKey = sender(url, { apikey }, CONNECTIONS)
  const byRule = sender(url, {}, CONNECTIONS)
  return {
    [BY_KEY]: await ofUsers(async (owner) => () => byKey('GET', `${path}&_owner=eq.${owner}`)),
    [BY_RULE]: await ofUsers(async (owner) => {
      const headers = { authorization: await tokenOf(owner) }
      return () => byRule('GET', path, undefined, headers)
    }),
  }
}

const SELECT = 'select=id,title,status,score,opened,extra,version,created_at,updated_at,owner'

/** @returns nothing if PostgREST is not available */
async function peer(started: Started, dir: string): Promise<Works> {
  try {
    const { url, tokenOf } = await startPostgrest(started, dir, { tables: [TABLE], claims: { owner: 'sub' } })
    const send = sender(url, {}, CONNECTIONS)
    const path = `/${TABLE}?${SELECT}&order=id&limit=${SIZE + 1}`
    const request = async (owner: string) => {
      const headers = { authorization: `Bearer ${await tokenOf({ sub: owner })}` }
      return () => send('GET', path, undefined, headers)
    }
    return { [PEER]: await ofUsers(request) }
  } catch (error) {
    process.stdout.write(`\nwithout PostgREST: ${(error as Error).message}\n`)
    return {}
  }
}

/** @throws TypeError unless a page is full, so that all send equally much */
async function check(works: Works): Promise<void> {
  for (const [name, work] of Object.entries(works)) {
    const reply = JSON.parse(await work())
    const found: readonly Readonly<Record<string, unknown>>[] = reply.data ?? reply
    const owners = new Set(found.map((document) => document['_owner'] ?? document['owner']))
    if (found.length < SIZE || owners.size !== 1)
      throw new TypeError(`${name} shows ${found.length} documents`)
  }
}

async function pages({ stack: { supervisor } }: Started, works: Works): Promise<void> {
  await check(works)
  const used = (name: string) =>
    usedUs(supervisor.pid(SERVERS[name] ?? '')) + usedUs(supervisor.pid('postgres'))
  await warmUp(CONNECTIONS, works)
  const alone = await interleaved(PAGE_ROUNDS, works)
  print(`\npage of ${SIZE}, one at a time`, 'p50 ms', 'p99 ms', '× no rule')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(alone))
    print(name, p50Ms, p99Ms, p50Ms / (alone[BY_KEY]?.p50Ms ?? 0))
  for (const lanes of LANES) {
    const rates = await contest({ ...TURN, lanes, usedUs: used }, works)
    print(`\npage of ${SIZE}, ${lanes} at once`, 'per s', 'p99 ms', 'cpu µs', '× no rule', '× PostgREST')
    for (const [name, { perS, p99Ms, cpuUs }] of Object.entries(rates))
      print(name, perS, p99Ms, cpuUs, perS / (rates[BY_KEY]?.perS ?? 0), perS / (rates[PEER]?.perS ?? 0))
  }
}

/** `/v1/me` reads no store, so it differs by the credential alone. */
async function tokens({ url, anonKey, tokenOf }: OwnedDocuments): Promise<void> {
  const send = sender(url, {}, 1)
  const known = await tokenOf(ownerOf(0))
  // Rounds, and a tenth of them before.
  const fresh = await Promise.all(
    Array.from({ length: sized(TOKEN_ROUNDS, 1) * 1.1 + 1 }, () => tokenOf(ownerOf(1))),
  )
  const ask = (headers: Readonly<Record<string, string>>) => send('GET', '/v1/me', undefined, headers)
  const figures = await interleaved(TOKEN_ROUNDS, {
    'anon key': () => ask({ apikey: anonKey }),
    "user's token": () => ask({ authorization: known }),
    "user's token, its first request": () => ask({ authorization: fresh.pop() ?? '' }),
  })
  print('\nGET /v1/me, one at a time', 'p50 ms', 'p99 ms', '+ ms')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures))
    print(name, p50Ms, p99Ms, p50Ms - figures['anon key'].p50Ms)
}
