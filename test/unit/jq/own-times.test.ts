/** jq reads the times that the platform writes: RFC 3339 with fractions and offsets. */

import { expect, test } from 'vitest'
import { answerHere } from './jq-oracle.ts'

const values = (program: string, input: string) => answerHere(program, input)

const INSTANTS = [0, 951_782_400, 1_709_210_096, 1_798_761_599, 2_147_483_648, 4_102_444_799]
const OFFSETS = ['Z', '+00:00', '+02:00', '-05:30', '+0545', '-12:00', '+14:00']

function written(seconds: number, offset: string, fraction: string): string {
  const [, sign = '+', hours = '0', minutes = '0'] = /([+-])(\d\d):?(\d\d)/.exec(offset) ?? []
  const east = (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60
  return new Date((seconds + east) * 1_000).toISOString().replace(/\.000Z$/, `${fraction}${offset}`)
}

test('fromdate: any offset and fraction: yields the instant that JavaScript reads', () => {
  for (const seconds of INSTANTS)
    for (const offset of OFFSETS)
      for (const fraction of ['', '.5', '.123', '.123456789']) {
        const text = written(seconds, offset, fraction)
        for (const program of ['fromdate', 'fromdateiso8601'])
          expect([text, values(program, text)]).toEqual([text, values('.[0]', [seconds] as never)])
      }
})

test('strptime with %z: honours the offset', () => {
  const program = 'strptime("%Y-%m-%dT%H:%M:%S%z") | todate'
  expect(values(program, '2024-03-01T00:30:00+0200')).toEqual(values('.', '2024-02-29T22:30:00Z'))
})

test.each(['2024-03-01', 'soon', '2024-03-01T00:00:00', '2024-03-01T00:00:00.1.2Z', '2024-03-01T00:00:00Zx'])(
  'fromdate of %s: names the text and the format',
  (text) => {
    const message = `date "${text}" does not match format "%Y-%m-%dT%H:%M:%SZ"`
    expect(values('try fromdate catch .', text)).toEqual(values('.', message))
  },
)
