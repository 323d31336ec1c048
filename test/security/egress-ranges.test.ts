/** Addresses that flows cannot reach: every spelling of every non-public range, and the host's own addresses. */

import type { NetworkInterfaceInfo } from 'node:os'
import { describe, expect, test } from 'vitest'
import { Egress, PublicAddresses } from '../../src/infra/http-client/egress.ts'

/** Outcome of an allowed request: 3000::/4 is unassigned, so no route leads there. */
const LET_OUT = /^upstream_(unavailable|timeout)$/

const HOST = { lo: [at('127.0.0.1')], eth0: [at('22.0.0.9'), at('3000::9')] }
const OF_HOST = new PublicAddresses(() => HOST)

function at(address: string): NetworkInterfaceInfo {
  const family = address.includes(':') ? 'IPv6' : 'IPv4'
  return { address, family, netmask: '', mac: '', internal: false, cidr: null, scopeid: 0 } as never
}

/** Sends a request. @returns the code of its problem */
async function codeOf(url: string, egress = new Egress([], noNames, OF_HOST)): Promise<string> {
  const outbound = { method: 'POST', url: new URL(url), headers: {} }
  const sent = egress.send(outbound, { allowed: [] }, { timeoutMs: 50, bytesMax: 10 })
  return sent.then(
    () => 'answered',
    (error: { code: string }) => error.code,
  )
}

const noNames = async () => {
  throw new Error('no name is looked up')
}

describe('address as the host of a URL', () => {
  test.each([
    [
      'loopback',
      ['127.0.0.1', '127.1', '2130706433', '0x7f000001', '0177.0.0.1', '127.255.255.254', '[::1]'],
    ],
    ['unspecified', ['0.0.0.0', '0', '0.1.2.3', '[::]']],
    ['private (RFC 1918)', ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', '0xa.0.0.1']],
    ['carrier-grade NAT (RFC 6598)', ['100.64.0.1', '100.127.255.255']],
    ['link-local, with the metadata services', ['169.254.169.254', '[fe80::1]', '[fe80::a9fe:a9fe]']],
    ['protocol assignments (RFC 6890)', ['192.0.0.1', '192.0.0.171', '[2001:1::1]', '[2001:1ff::1]']],
    [
      'documentation (RFC 5737, 3849, 9637)',
      ['192.0.2.2', '198.51.100.1', '203.0.113.7', '[2001:db8::1]', '[3fff::1]', '[3fff:fff::1]'],
    ],
    ['6to4 relays (RFC 7526)', ['192.88.99.1']],
    ['benchmarks (RFC 2544, 5180)', ['198.18.0.1', '198.19.255.255', '[2001:2::1]']],
    ['AS112 and AMT', ['192.175.48.1', '192.31.196.1', '192.52.193.1', '[2620:4f:8000::1]', '[2001:3::1]']],
    ['multicast', ['224.0.0.1', '239.255.255.255', '[ff02::1]', '[ff0e::1]']],
    ['reserved and broadcast', ['240.0.0.1', '255.255.255.255']],
    [
      'IPv4-mapped',
      [
        '[::ffff:127.0.0.1]',
        '[::ffff:7f00:1]',
        '[::ffff:10.0.0.1]',
        '[0:0:0:0:0:ffff:c0a8:1]',
        '[::ffff:192.0.2.2]',
      ],
    ],
    ['IPv4-compatible (RFC 4291 §2.5.5.1)', ['[::127.0.0.1]', '[::7f00:1]', '[::8.8.8.8]']],
    ['IPv4-translated (RFC 6145)', ['[::ffff:0:127.0.0.1]', '[::ffff:0:8.8.8.8]']],
    ['NAT64 (RFC 6052, 8215)', ['[64:ff9b::127.0.0.1]', '[64:ff9b::8.8.8.8]', '[64:ff9b:1::a00:1]']],
    ['6to4 and Teredo', ['[2002:7f00:1::]', '[2002:808:808::1]', '[2001::1]', '[2001:0:7f00:1::]']],
    ['ORCHID and remote ids', ['[2001:10::1]', '[2001:20::1]', '[2001:30::1]']],
    ['unique local and site-local', ['[fc00::1]', '[fd12:3456::1]', '[fec0::1]']],
    ['discard (RFC 6666)', ['[100::1]']],
    ['segment routing (RFC 9602)', ['[5f00::1]', '[5f00:ffff::1]']],
    ['outside of 2000::/3, the only assigned range', ['[4000::1]', '[1fff::1]', '[8000::1]']],
    ['the host’s own address', ['22.0.0.9', '[::ffff:22.0.0.9]', '[3000::9]', '[3000:0:0:0:0:0:0:0009]']],
  ])('%s: blocked', async (_, hosts) => {
    for (const host of hosts)
      expect([host, await codeOf(`http://${host}:9/`)]).toEqual([host, 'egress_refused'])
  })

  test('public: allowed', async () => {
    expect(await codeOf('http://[3000::7]:9/')).toMatch(LET_OUT)
  })
})

describe('address resolved from a name', () => {
  test.each([
    '192.0.2.2',
    '192.88.99.1',
    '22.0.0.9',
    '::ffff:22.0.0.9',
    '::ffff:0:127.0.0.1',
    '2001:db8::1',
    '3fff::1',
    '5f00::1',
    '3000::9',
    'fe80::1%eth0',
    'no address',
  ])('%s next to a public one: blocked', async (address) => {
    const find = async () => [
      { address: '3000::7', family: 6 },
      { address, family: 4 },
    ]
    const egress = new Egress([], find, OF_HOST)
    expect(await codeOf('http://name.example:9/', egress)).toBe('egress_refused')
  })
})

test('address added to the host at runtime: blocked', async () => {
  let clockMs = 0
  let interfaces = HOST
  const addresses = new PublicAddresses(
    () => interfaces,
    () => clockMs,
  )
  const egress = new Egress([], noNames, addresses)
  expect(await codeOf('http://[3000::7]:9/', egress)).toMatch(LET_OUT)
  interfaces = { ...HOST, eth0: [at('3000::7')] }
  clockMs += 10_000
  expect(await codeOf('http://[3000::7]:9/', egress)).toBe('egress_refused')
})

test("host's own address allowed by the operator: allowed", async () => {
  const egress = new Egress(['127.0.0.1:9'], noNames, OF_HOST)
  expect(await codeOf('http://127.0.0.1:9/', egress)).toMatch(LET_OUT)
})
