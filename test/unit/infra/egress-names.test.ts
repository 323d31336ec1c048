/** Outgoing requests to host names: changing or hostile DNS answers never lead to an internal address. */

import { createSocket, type Socket } from 'node:dgram'
import type { LookupAddress } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, isIPv6 } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Egress, type Sender } from '../../../src/infra/http-client/egress.ts'

/** Public by its number and unassigned: IANA has assigned nothing in 3000::/4 but documentation networks. */
const NOBODYS = '3000::7'
const A = 1
const AAAA = 28

let names: Socket
let inside: Server
let port: number
let reached: number
/** Addresses of the name at the first and each later query; the last one repeats. */
let meanings: string[][]
let lookups: Record<number, number>

beforeAll(async () => {
  names = createSocket('udp4').on('message', (query, { port: from }) => names.send(answerTo(query), from))
  await new Promise<void>((done) => names.bind(0, '127.0.0.1', done))
  inside = createServer((_request, response) => {
    reached += 1
    response.end('inside')
  })
  await new Promise<void>((done) => inside.listen(0, '127.0.0.1', done))
  port = (inside.address() as AddressInfo).port
})
afterAll(() => {
  names?.close()
  inside?.close()
})
beforeEach(() => {
  reached = 0
  lookups = { [A]: 0, [AAAA]: 0 }
})

/** Answers one question for any name, with a TTL of zero (RFC 1035 §4.1). */
function answerTo(query: Buffer): Buffer {
  const end = query.indexOf(0, 12) + 5
  const type = query.readUInt16BE(end - 4)
  const turn = lookups[type] ?? 0
  lookups[type] = turn + 1
  const meant = meanings[Math.min(turn, meanings.length - 1)] ?? []
  const answers = meant.filter((address) => isIPv6(address) === (type === AAAA))
  const head = Buffer.from([...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, answers.length, 0, 0, 0, 0])
  const records = answers.map((address) => {
    const bytes = bytesOf(address)
    return Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, bytes.length, ...bytes])
  })
  return Buffer.concat([head, query.subarray(12, end), ...records])
}

function bytesOf(address: string): number[] {
  if (!isIPv6(address)) return address.split('.').map(Number)
  const [left = [], right = []] = address
    .split('::')
    .map((half) => half.split(':').filter((group) => group !== ''))
  const groups = [...left, ...Array<string>(8 - left.length - right.length).fill('0'), ...right]
  return groups.map((group) => Number.parseInt(group, 16)).flatMap((group) => [group >> 8, group & 255])
}

/** Resolves as the system would, through the test's name server. */
async function find(hostname: string): Promise<LookupAddress[]> {
  const resolver = new Resolver({ timeout: 2_000, tries: 1 })
  resolver.setServers([`127.0.0.1:${(names.address() as AddressInfo).port}`])
  const none = () => [] as string[]
  const [v4, v6] = await Promise.all([
    resolver.resolve4(hostname).catch(none),
    resolver.resolve6(hostname).catch(none),
  ])
  return [...v4.map((address) => ({ address, family: 4 })), ...v6.map((address) => ({ address, family: 6 }))]
}

/** @returns the body, or the code of the problem */
async function send(egress: Egress, method = 'GET', sender: Sender = { allowed: [] }): Promise<string> {
  const outbound = { method, url: new URL(`http://name.example:${port}/`), headers: {} }
  try {
    return (await egress.send(outbound, sender, { timeoutMs: 400, bytesMax: 1_000 })).body.toString()
  } catch (error) {
    return (error as { code: string }).code
  }
}

test.each([
  [['127.0.0.1']],
  [['10.1.2.3']],
  [['169.254.169.254']],
  [['::1']],
  [['fd00::1']],
  [['::ffff:7f00:1']],
  [[NOBODYS, '127.0.0.1']],
  [['2001:db9::1', '::1']],
])('host name that resolves to %j: is rejected', async (addresses) => {
  meanings = [addresses]
  const egress = new Egress([], find)
  expect([
    await send(egress),
    await send(egress, 'POST'),
    await send(egress, 'GET', { allowed: [], owner: 'a' }),
  ]).toEqual(Array(3).fill('egress_refused'))
  expect(reached).toBe(0)
})

test.each([
  ['a request that keeps nothing', 'POST', { allowed: [] }],
  ['one whose connection would be kept', 'GET', { allowed: [], owner: 'a' }],
])(
  'host name that resolves differently after the check: is resolved once and connected to the checked address: %s',
  async (_, method, sender) => {
    meanings = [[NOBODYS], ['127.0.0.1']]
    const egress = new Egress([], find)
    expect(await send(egress, method, sender)).toMatch(/^upstream_(unavailable|timeout)$/)
    expect([lookups, reached]).toEqual([{ [A]: 1, [AAAA]: 1 }, 0])
    // The next request resolves the name again and checks the new address.
    expect(await send(egress, method, sender)).toBe('egress_refused')
    expect(reached).toBe(0)
  },
)
