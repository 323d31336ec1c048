/** Secrets in errors of a function, whose texts are cut. */

import { expect, test } from 'vitest'
import { Suspended } from '../../../src/access/tenant-states.ts'
import { CallSecrets } from '../../../src/activities/flow/call-secrets.ts'
import { SecretMask } from '../../../src/activities/function/secret-mask.ts'
import { Problem } from '../../../src/core/problem.ts'
import { handleOf } from '../../../src/core/secret-handle.ts'
import { FUNCTION_LIMITS } from '../../../src/features/functions/limits.ts'

const SECRET = 'hunter2-hunter2-hunter2'
const HALF = SECRET.slice(0, 12)
/** A text of that length, which ends within the secret. */
const cutAt = (length: number) => HALF.padStart(length, '.')

const failureOf = (mask: SecretMask) =>
  mask.failure(
    new Problem('function_error', {
      detail: cutAt(FUNCTION_LIMITS.messageCharsMax),
      members: {
        logs: [`${cutAt(100)}…`, `whole ${SECRET}`],
        error: { name: cutAt(FUNCTION_LIMITS.errorNameCharsMax), line: 1, column: 2 },
      },
    }),
  ) as Problem

test('message, name and line that end within a secret: its beginning is left out', () => {
  const { detail, members } = failureOf(new SecretMask([SECRET]))
  expect(detail).toBe('.'.repeat(FUNCTION_LIMITS.messageCharsMax - HALF.length))
  expect(members).toMatchObject({
    logs: [`${'.'.repeat(100 - HALF.length)}…`, 'whole ***'],
    error: { name: '.'.repeat(FUNCTION_LIMITS.errorNameCharsMax - HALF.length), line: 1, column: 2 },
  })
})

test('secret of a calling flow: the same', () => {
  const flowSecrets = new CallSecrets(new Map(), new Map([[handleOf('key', 'k'.repeat(43)), SECRET]]))
  const { detail, members } = failureOf(new SecretMask([], flowSecrets))
  expect([detail, JSON.stringify(members['error'])].join()).not.toContain(HALF)
})

test('line that ends with a secret of a flow: is masked, whatever the end of the handle looks like', () => {
  // The handle ends with the beginning of the secret.
  const flowSecrets = new CallSecrets(new Map(), new Map([[handleOf('key', 'h'.repeat(43)), SECRET]]))
  const mask = new SecretMask([], flowSecrets)
  expect([`got ${SECRET}`, `got ${SECRET}…`].map((text) => mask.line(text))).toEqual(['got ***', 'got ***…'])
})

test('a suspension: passes unchanged, since the workflow waits for its end', () => {
  const suspended = new Suspended('workspace_suspended', 1)
  expect(new SecretMask([SECRET]).failure(suspended)).toBe(suspended)
})

test('a message that was not cut: keeps an end that looks like the beginning of a secret', () => {
  const whole = new Problem('function_error', { detail: `the end: ${HALF}` })
  expect((new SecretMask([SECRET]).failure(whole) as Problem).detail).toBe(`the end: ${HALF}`)
})
