/** Keys in the store's form: there and back, never two in one place, prefixes as the caller means them. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { givenKey, storedKey, storedPrefix } from '../../../src/core/object-key.ts'

/** Texts of the pieces that the store's tree treats in a way of its own, and of what we put in their place. */
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

test('a key comes back as it was', () => {
  fc.assert(
    fc.property(key, (name) => {
      expect(givenKey(storedKey(name))).toBe(name)
    }),
  )
})

test('the stored form has nothing that a tree would fold or hide', () => {
  const folded = /(^|\/)(\/|$|\.{1,2}(\/|$)|\.uploads(\/|$))|\\|\.versions\//
  fc.assert(
    fc.property(key, (name) => {
      expect(storedKey(name)).not.toMatch(folded)
    }),
  )
})

test('a stored key begins with a stored prefix exactly where the key begins with the prefix', () => {
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
])('%j is refused', (name, code) => {
  expect(() => storedKey(name)).toThrow(expect.objectContaining({ code }))
})
