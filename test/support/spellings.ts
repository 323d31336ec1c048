/** Texts of the formats that are compared as what they mean: right ones of every spelling, and nearly right ones. */

import fc from 'fast-check'

const two = (n: number) => String(n).padStart(2, '0')

const year = fc.oneof(
  fc.constantFrom(0, 1, 4, 100, 400, 1900, 1969, 1970, 2000, 2026, 9999),
  fc.integer({ min: 0, max: 9999 }),
)
/** Days that exist, and the 29th to 31st of months that have none. */
const dates = fc
  .tuple(
    year,
    fc.integer({ min: 1, max: 12 }),
    fc.oneof(fc.integer({ min: 1, max: 31 }), fc.integer({ min: 27, max: 31 })),
  )
  .map(([y, m, d]) => `${String(y).padStart(4, '0')}-${two(m)}-${two(d)}`)

const offset = fc.oneof(
  fc.constantFrom('Z', 'z', '+00:00', '-00:00', '+02:00', '-05:30', '+23:59', '-23:59'),
  fc
    .tuple(fc.constantFrom('+', '-'), fc.integer({ min: 0, max: 23 }), fc.integer({ min: 0, max: 59 }))
    .map(([sign, hours, minutes]) => `${sign}${two(hours)}:${two(minutes)}`),
)
const fraction = fc.oneof(
  fc.constantFrom('', '.0', '.5', '.50', '.123', '.123456789', '.1234567890123'),
  fc.stringMatching(/^\.[0-9]{1,12}$/),
)
const clock = fc
  .tuple(fc.integer({ min: 0, max: 23 }), fc.integer({ min: 0, max: 59 }), fc.integer({ min: 0, max: 59 }))
  .map((parts) => parts.map(two).join(':'))
const suffix = fc.constantFrom('', '', '', '', '[Europe/Paris]', '[!u-ca=hebrew]', '[]', '[x')

export const instants = fc
  .tuple(dates, fc.constantFrom('T', 'T', 't'), clock, fraction, offset)
  .map((parts) => parts.join(''))

/** One character of a text is another one, is doubled, or is gone. */
const nearly = (texts: fc.Arbitrary<string>) =>
  fc
    .tuple(
      texts,
      fc.nat(),
      fc.constantFrom('', '0', '6', '9', ':', '-', '.', 'Z', ' ', '\n', '[', ']', 'é', '٣'),
      fc.boolean(),
    )
    .map(([text, at, put, keep]) => {
      const place = at % (text.length + 1)
      return text.slice(0, place) + put + text.slice(keep ? place : place + 1)
    })

const sixty = instants.map((text) => text.replace(/(\d\d:\d\d):\d\d/, '$1:60'))
const leap = fc.constantFrom(
  '1990-12-31T23:59:60Z',
  '1990-12-31T15:59:60.5-08:00',
  '0000-01-01T00:30:60+00:31',
)
export const points = fc.oneof(
  instants,
  sixty,
  leap,
  dates,
  fc.tuple(instants, suffix).map((parts) => parts.join('')),
  nearly(instants),
  nearly(dates),
)

export const uuids = fc.oneof(
  fc.uuid(),
  fc.uuid().map((text) => text.toUpperCase()),
  nearly(fc.uuid()),
)
