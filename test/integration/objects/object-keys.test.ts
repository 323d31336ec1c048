/** Object keys in stored form: reversible, without collisions, with correct prefixes. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { givenKey, storedKey, storedPrefix } from '../../../src/core/object-key.ts'

/** Fragments that the store's directory tree treats specially, and those that our encoding produces. */
const pieces = [
  'a',
  'ü',
  '/',
  '//',
  '%',
  '\\',
  '.',
  '.versions',
  '.uploads',
  '5C',
  '25',
  '-',
  '%-',
  '%5C',
  ' ',
]
const text = fc.array(fc.constantFrom(...pieces), { maxLength: 8 }).map((parts) => parts.join(''))
const key = text.filter((name) => name !== '' && !name.split(/[/\\]/).some((part) => /^\.{1,2}$/.test(part)))

test('object key: encoded and decoded: unchanged', () => {
  fc.assert(
    fc.property(key, (name) => {
      expect(givenKey(storedKey(name))).toBe(name)
    }),
  )
})

test('object key: encoded: has nothing that a directory tree would normalise or hide', () => {
  const normalisable = /(^|\/)(\/|$|\.{1,2}(\/|$)|\.uploads(\/|$))|\\|\.versions\//
  fc.assert(
    fc.property(key, (name) => {
      expect(storedKey(name)).not.toMatch(normalisable)
    }),
  )
})

test('object key: encoded prefix: matches exactly if the prefix matches', () => {
  const begins = (name: string, prefix: string): void => {
    expect(storedKey(name).startsWith(storedPrefix(prefix))).toBe(name.startsWith(prefix))
  }
  fc.assert(fc.property(key, text, begins))
  fc.assert(fc.property(key, fc.nat(12), (name, length) => begins(name, name.slice(0, length))))
})

test.each([
  ['', 'InvalidKey'],
  ['..', 'InvalidKey'],
  ['a/../b', 'InvalidKey'],
  ['a\\..\\b', 'InvalidKey'],
  ['./a', 'InvalidKey'],
  ['a\u0000b', 'InvalidKey'],
  ['a\u0085b', 'InvalidKey'],
  ['\ud800', 'InvalidKey'],
  ['é/'.repeat(400), 'KeyTooLongError'],
  ['x'.repeat(256), 'KeyTooLongError'],
  ['%'.repeat(86), 'KeyTooLongError'],
])('object key: %j: refused with %s', (name, code) => {
  expect(() => storedKey(name)).toThrow(expect.objectContaining({ code }))
})
