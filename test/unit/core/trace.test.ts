/** `traceparent` as the W3C defines it: what is read, what is replaced, and what is passed on. */

import { expect, test } from 'vitest'
import { readTrace, readTraceparent, traceFrom, traceIdOf, traceText } from '../../../src/core/trace.ts'
import { inTrace, traceOfRequest } from '../../../src/infra/trace-context.ts'
import { outgoingTraceparent } from '../../../src/infra/tracing.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'
const VALID = `00-${TRACE}-${SPAN}-01`

test.each([
  ['valid', VALID, true],
  ['not sampled', `00-${TRACE}-${SPAN}-00`, false],
  ['unknown flags', `00-${TRACE}-${SPAN}-fe`, false],
  ['later version', `cc-${TRACE}-${SPAN}-01`, true],
  ['later version with more fields', `cc-${TRACE}-${SPAN}-01-what-the-future-will-be-like`, true],
])('traceparent: %s: is read', (_what, header, isSampled) => {
  expect(readTraceparent(header)).toEqual({ traceId: TRACE, spanId: SPAN, isSampled })
})

test.each([
  ['none', undefined],
  ['empty', ''],
  ['two of them', `${VALID}, ${VALID}`],
  ['version ff', `ff-${TRACE}-${SPAN}-01`],
  ['version of one digit', `0-${TRACE}-${SPAN}-01`],
  ['upper case', VALID.toUpperCase()],
  ['upper case in the trace id', `00-${TRACE.toUpperCase()}-${SPAN}-01`],
  ['trace id of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
  ['span id of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
  ['short trace id', `00-${TRACE.slice(1)}-${SPAN}-01`],
  ['long span id', `00-${TRACE}-${SPAN}0-01`],
  ['flags of one digit', `00-${TRACE}-${SPAN}-1`],
  ['no flags', `00-${TRACE}-${SPAN}`],
  ['more fields in version 00', `${VALID}-more`],
  ['a dash at the end in version 00', `${VALID}-`],
  ['later version with more and no dash', `cc-${TRACE}-${SPAN}-01.more`],
  ['not hexadecimal', `00-${TRACE.replace('a', 'g')}-${SPAN}-01`],
  ['blanks', ` ${VALID} `],
  ['a line break', `${VALID}\n`],
  ['several values of Node', [VALID]],
])('traceparent: %s: is replaced by a new trace', (_what, header) => {
  expect(readTraceparent(header)).toBeUndefined()
  const { traceparent } = traceOfRequest('r', header)
  expect(readTraceparent(traceparent)).toMatchObject({ isSampled: false })
  expect(traceparent).not.toContain(TRACE)
})

test('request: its trace is continued, below its span; each request that it sends has a span of its own', () => {
  const trace = traceOfRequest('r', VALID)
  expect(traceIdOf(trace)).toBe(TRACE)
  expect(readTraceparent(trace.traceparent)?.spanId).not.toBe(SPAN)
  const sent = inTrace(trace, () => [outgoingTraceparent(), outgoingTraceparent()])
  expect(sent).toEqual([
    expect.stringMatching(`^00-${TRACE}-[0-9a-f]{16}-01$`),
    expect.stringContaining(TRACE),
  ])
  expect(new Set([VALID, trace.traceparent, ...sent]).size).toBe(4)
  expect(outgoingTraceparent()).toBeUndefined()
})

test('text of a trace: reads back; any other text is none', () => {
  const trace = traceOfRequest('r-1', VALID)
  expect(readTrace(traceText(trace))).toEqual(trace)
  for (const text of [null, undefined, '', 'r-1', `r-1 ${VALID}x`, ` ${VALID}`])
    expect(readTrace(text)).toBeUndefined()
})

test('trace of work without a request: is the same whenever it is derived, and valid', () => {
  const uuid = '0199c0de-7a11-7abc-8def-0123456789ab'
  expect(traceFrom(uuid)).toEqual(traceFrom(uuid))
  expect(readTrace(traceText(traceFrom(uuid)))?.requestId).toMatch(/^req_/)
})
