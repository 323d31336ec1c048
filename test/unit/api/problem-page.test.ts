/** Checks the page of a problem, which people see in place of a JSON document. */

import type { FastifyRequest } from 'fastify'
import { expect, test } from 'vitest'
import { problemPage } from '../../../src/api/issuer/forms.ts'
import { Problem } from '../../../src/core/problem.ts'

const request = {
  id: 'req_1',
  headers: { accept: 'text/html' },
  routeOptions: { config: { isPage: true } },
} as unknown as FastifyRequest
const textOf = (problem: Problem) => problemPage(problem, request)?.html

test('error of the platform: the page names the request id', () => {
  expect(textOf(new Problem('internal'))).toContain('report the request id req_1.')
  expect(textOf(new Problem('dependency_unavailable'))).toContain('report the request id req_1.')
  expect(textOf(new Problem('forbidden'))).not.toContain('req_1')
})

test('detail with a secret: the page does not show it', () => {
  const html = textOf(new Problem('forbidden', { detail: 'It came with Bearer 0123456789abcdef0123.' }))
  expect(html).toContain('It came with')
  expect(html).not.toContain('0123456789abcdef')
})
