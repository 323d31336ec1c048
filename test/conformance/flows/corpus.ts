/** Reads the test corpus of flows with their cases: input, answers of the environment, expected outcome. */

import { readdirSync, readFileSync } from 'node:fs'
import type { Case, SimulatedCase } from './scenario.ts'

const FOLDER = new URL('corpus/', import.meta.url)

interface Kept {
  readonly file: string
  readonly source: string
  readonly cases: Readonly<Record<string, Case | SimulatedCase>>
}

export function corpus(): Kept[] {
  const read = (file: string) => readFileSync(new URL(file, FOLDER), 'utf8')
  const files = readdirSync(FOLDER).filter((file) => file.endsWith('.yaml'))
  return files.map((file) => ({
    file,
    source: read(file),
    cases: JSON.parse(read(file.replace('.yaml', '.json'))),
  }))
}
