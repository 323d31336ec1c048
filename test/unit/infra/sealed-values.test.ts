/** Sealed values name the master key that encrypts them; of several keys the first encrypts and all decrypt. */

import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ChainSigner, signingKeyIdOf } from '../../../src/access/audit/chain-signer.ts'
import { formatMasterKeys, masterKeyOf, parseMasterKeys } from '../../../src/infra/crypto/master-keys.ts'
import { keyIdOf, Secrets } from '../../../src/infra/crypto/secrets.ts'

const newKey = () => randomBytes(32).toString('base64')
const [OLD, NEW] = [newKey(), newKey()]
const idOf = (key: string) => masterKeyOf(Buffer.from(key, 'base64')).id

test('sealed value: any length and purpose: begins with version and key id, and only its purpose opens it', () => {
  const secrets = new Secrets(OLD)
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2_000 }), fc.string(), fc.string(), (bytes, purpose, other) => {
      const plain = Buffer.from(bytes)
      const sealed = secrets.seal(purpose, plain)
      expect(sealed[0]).toBe(1)
      expect(sealed.toString('hex', 1, 9)).toBe(idOf(OLD))
      expect(sealed.length).toBe(plain.length + 1 + 8 + 12 + 16)
      expect(secrets.open(purpose, sealed).equals(plain)).toBe(true)
      if (other !== purpose) expect(() => secrets.open(other, sealed)).toThrow()
    }),
    { numRuns: 50 },
  )
})

test('sealed value: each byte is changed: it is not opened', () => {
  const secrets = new Secrets(`${OLD},${NEW}`)
  const sealed = secrets.seal('a', Buffer.from('text'))
  for (const at of sealed.keys()) {
    const changed = Buffer.from(sealed)
    changed[at] = (changed[at] ?? 0) ^ 1
    expect(() => secrets.open('a', changed), `byte ${at}`).toThrow()
    expect(() => secrets.open('a', sealed.subarray(0, at)), `cut at ${at}`).toThrow()
  }
})

test('two keys: processes with either one first: each reads what the other writes, and writes under its first', () => {
  const [oldFirst, newFirst] = [new Secrets(`${OLD},${NEW}`), new Secrets(`${NEW}\n${OLD}\n`)]
  const [before, after] = [oldFirst.seal('a', Buffer.from('1')), newFirst.seal('a', Buffer.from('2'))]
  expect([keyIdOf(before), keyIdOf(after)]).toEqual([idOf(OLD), idOf(NEW)])
  for (const secrets of [oldFirst, newFirst])
    expect([before, after].map((one) => secrets.open('a', one).toString())).toEqual(['1', '2'])
  expect(oldFirst.deriveAll('a')).toEqual([...newFirst.deriveAll('a')].reverse())
  expect(newFirst.derive('a')).toBe(new Secrets(NEW).derive('a'))
  expect(newFirst.macs('a', before).map((mac) => mac.toString('hex', 0, 8))).toEqual([idOf(NEW), idOf(OLD)])
})

test('unknown key: value of a key that is not configured: the error names the key that is missing', () => {
  const sealed = new Secrets(OLD).seal('a', Buffer.from('text'))
  expect(() => new Secrets(NEW).open('a', sealed)).toThrow(
    `The value was encrypted with the master key ${idOf(OLD)}, which is missing`,
  )
  expect(() => new Secrets(NEW).open('a', Buffer.from('text'))).toThrow(
    'not one that the platform has encrypted',
  )
})

test('list of keys: malformed, empty or with a key twice: refused, and no key is shown', () => {
  for (const [text, said] of [
    ['', /no master key/],
    [`${OLD},short`, /master key 2 is not 32 bytes/],
    [`${OLD},${NEW},${OLD}`, /is there twice/],
  ] as const) {
    expect(() => parseMasterKeys(text)).toThrow(said)
    expect(() => parseMasterKeys(text)).not.toThrow(OLD)
  }
  expect(formatMasterKeys(parseMasterKeys(` ${OLD}\n\n${NEW} `))).toBe(`${OLD},${NEW}`)
})

test('checkpoint: signed under the key before: verifies while it is known, and after it was signed again without it', async () => {
  const checkpoint = { tenant_id: 'ten_a', workspace_id: '', chain: 'audit', seq: 7, hash: 'ab'.repeat(32) }
  const signature = await new ChainSigner(new Secrets(OLD)).sign(checkpoint)
  const [both, later] = [new ChainSigner(new Secrets(`${NEW},${OLD}`)), new ChainSigner(new Secrets(NEW))]
  expect(signingKeyIdOf(signature)).toBe(idOf(OLD))
  expect([await both.verify(signature, checkpoint), await later.verify(signature, checkpoint)]).toEqual([
    true,
    false,
  ])
  const again = await both.signAgain(signature, checkpoint)
  expect(signingKeyIdOf(again)).toBe(idOf(NEW))
  expect(await later.verify(again, checkpoint)).toBe(true)
  expect(await later.verify(again, { ...checkpoint, seq: 8 })).toBe(false)
  await expect(both.signAgain(signature, { ...checkpoint, seq: 8 })).rejects.toThrow(
    'was not signed with a key',
  )
})
