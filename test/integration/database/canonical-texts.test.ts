/** Canonical JSON: the database and the API produce the same text. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalOf, FORMATS } from '../../../src/features/collections/schemas/canonical-text.ts'
import { numberTexts } from '../../support/fixtures/number-spellings.ts'
import { asSuperuser } from '../../support/fixtures/tenants.ts'
import { points, uuids } from '../../support/fixtures/timestamp-spellings.ts'

test('canonical JSON: made by the database and by the API: identical', async () => {
  const texts = fc.sample(fc.oneof(points, points, uuids, numberTexts), { numRuns: 30_000, seed: 20_261_121 })
  for (const format of FORMATS) {
    const rows = await asSuperuser<{ canonical: string | null }>(
      'select tenon.canonical($1, value) as canonical from unnest($2::text[]) with ordinality e (value, n) order by n',
      [format, texts],
    )
    const made = rows.map(({ canonical }, index) => [texts[index], canonical])
    expect(made).toEqual(texts.map((text) => [text, canonicalOf(format, text) ?? null]))
    expect(made.filter(([, canonical]) => canonical !== null).length).toBeGreaterThan(1_000)
  }
})
