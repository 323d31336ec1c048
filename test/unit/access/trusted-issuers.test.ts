/**
 * The setting OIDC_ISSUERS: all its errors are reported at once without values, and its defaults are safe.
 */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { type ConfigError, issuerUrl, parseConfig } from '../../../src/infra/config.ts'
import { readIssuers } from '../../../src/infra/trusted-issuers.ts'

const TENANT = 'ten_01h455vb4pex5vsknk084sn02q'
const good = { issuer: 'https://login.acme.test/realms/acme', audience: 'api', tenants: [TENANT] }
const read = (...issuers: unknown[]) => readIssuers(JSON.stringify(issuers))
const faults = (more: object) => read({ ...good, ...more }).faults

describe('trusted issuers: accepted', () => {
  test('no setting: no issuer is trusted', () => {
    expect(readIssuers('')).toEqual({ issuers: [], faults: [] })
    expect(readIssuers(' [] ')).toEqual({ issuers: [], faults: [] })
  })

  test('an issuer without options: gets the defaults', () => {
    expect(read(good).issuers).toEqual([
      {
        issuer: good.issuer,
        audience: ['api'],
        jwksUri: undefined,
        algorithms: ['RS256', 'PS256', 'ES256', 'EdDSA'],
        typ: 'at+jwt',
        claims: {
          tenant: ['tenant_id'],
          workspace: ['workspace_id'],
          roles: ['realm_access', 'roles'],
          scope: ['scope'],
          user: ['claims'],
        },
        // Neither the role operator nor the right to see payloads is among the defaults.
        roles: new Map([
          ['tenant_admin', 'tenant_admin'],
          ['workspace_admin', 'workspace_admin'],
          ['developer', 'developer'],
          ['viewer', 'viewer'],
          ['service', 'service'],
          ['user', 'user'],
          ['anon', 'anon'],
        ]),
        tenants: new Set([TENANT]),
      },
    ])
  })

  test('a file name: the list is read from the file', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'tenon-issuers-'))
    const path = join(dir, 'issuers.json')
    await writeFile(path, JSON.stringify([good]))
    expect(readIssuers(path).issuers.map(({ issuer }) => issuer)).toEqual([good.issuer])
    await writeFile(path, '{')
    expect(readIssuers(path).faults).toEqual([' is not valid JSON.'])
    await rm(dir, { recursive: true })
    expect(readIssuers(path).faults).toEqual([' names a file that cannot be read: ENOENT.'])
  })
})

describe('trusted issuers: rejected', () => {
  test('an issuer that names no tenants: would speak for every tenant', () => {
    const { tenants: _none, ...rest } = good
    expect(read(rest).faults).toEqual([expect.stringMatching(/^\[0\]\.tenants is missing\. .*"\*" for all/)])
    for (const tenants of [[], ['*'], ['ten_1'], 'all', null, TENANT, [`${TENANT}x`]])
      expect(faults({ tenants })).toEqual([expect.stringMatching(/^\[0\]\.tenants is not valid/)])
  })

  test('the role operator: from an issuer of some tenants', () => {
    expect(faults({ roles: { root: 'operator' } })).toEqual([expect.stringContaining('tenants must be "*"')])
    expect(faults({ roles: { root: 'operator' }, tenants: '*' })).toEqual([])
    expect(faults({ roles: { root: 'superadmin' } })).toEqual([
      expect.stringContaining('.roles is not valid'),
    ])
  })

  test('key URLs: plain HTTP, or an internal address', () => {
    for (const url of ['http://login.acme.test', 'http://10.0.0.1/realms/x', 'http://localhost.evil.test'])
      for (const name of ['issuer', 'jwks_uri'])
        expect(faults({ [name]: url })).toEqual([
          `[0].${name} must be an https URL, or http of a loopback address.`,
        ])
    for (const url of ['http://localhost:8080/realms/x', 'http://127.0.0.1:1/', 'http://[::1]/x'])
      expect(faults({ issuer: url, jwks_uri: url })).toEqual([])
    for (const issuer of [
      'ftp://x',
      'x',
      '',
      'https://a.test/?q',
      'https://a.test/#f',
      'https://a b',
      7,
      'https://[',
    ])
      expect(faults({ issuer }).length).toBe(1)
  })

  test('algorithms: symmetric or none', () => {
    for (const algorithms of [['HS256'], ['none'], ['RS256', 'HS512'], ['RS1'], [], 'RS256'])
      expect(faults({ algorithms })).toEqual([expect.stringContaining('.algorithms is not valid')])
  })

  test('several errors: are reported together, by location and without values', () => {
    const { faults: lines } = read(
      { issuer: 'https://a.test', secret: 'hush-hush' },
      'hush-hush',
      { ...good, typ: 'hush-hush', claims: { tenant: 7 }, roles: { a: 'hush-hush' }, claim: {} },
      { ...good, claims: { tennant: 'x' }, audience: [] },
    )
    expect(lines.map((line) => /^\S+ (?:is missing|is not|must be)\b/.exec(line)?.[0])).toEqual([
      '[0].audience is missing',
      '[0].tenants is missing',
      '[0].secret is not',
      '[1] must be',
      '[2].typ is not',
      '[2].claims is not',
      '[2].roles is not',
      '[2].claim is not',
      '[3].audience is not',
      '[3].claims is not',
    ])
    expect(lines.join()).not.toContain('hush-hush')
  })

  test('duplicate issuers and values that are no list: are rejected', () => {
    expect(read(good, good).faults).toEqual([' names an issuer twice.'])
    expect(readIssuers('[{]').faults).toEqual([' is not valid JSON.'])
    expect(read(...Array.from({ length: 101 }, () => good)).faults).toHaveLength(1)
  })

  test('start of the process: reports these errors with those of other settings, and an issuer equal to its own', () => {
    const { env } = inject('tenon')
    const wrong = { ...env, REDIS_URL: 'nowhere', OIDC_ISSUERS: '[{"issuer":"https://a.test"}]' }
    const caught = (settings: Record<string, string>) => {
      try {
        return parseConfig(settings).OIDC_ISSUERS
      } catch (error) {
        return (error as ConfigError).faults.map((line) => line.split(' ')[0])
      }
    }
    expect(caught(wrong)).toEqual(['REDIS_URL', 'OIDC_ISSUERS[0].audience', 'OIDC_ISSUERS[0].tenants'])
    const own = issuerUrl(parseConfig(env))
    expect(caught({ ...env, OIDC_ISSUERS: JSON.stringify([{ ...good, issuer: own }]) })).toEqual([
      'OIDC_ISSUERS',
    ])
  })
})
