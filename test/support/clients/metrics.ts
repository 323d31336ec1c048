/** Scrapes the metrics of a process of the platform, and reads their text format. */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { inject } from 'vitest'
import type { Running } from '../stack/start.ts'

/** One line of a scrape. */
export interface Series {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** The address of the server for operators of a process, as its log names it. */
export async function opsAddress(process: string, { logs }: Running = inject('tenon')): Promise<string> {
  const lines = (await readFile(join(logs, `${process}.log`), 'utf8')).split('\n')
  const line = lines.findLast((text) => text.includes('"ops server listens"'))
  if (line === undefined) throw new Error(`the log of ${process} names no server for operators`)
  const { address, port } = JSON.parse(line) as { address: string; port: number }
  return `http://${address}:${port}`
}

export async function scrape(process: 'api' | 'worker', at?: Running): Promise<readonly Series[]> {
  const response = await fetch(`${await opsAddress(process, at)}/metrics`)
  if (!response.ok) throw new Error(`${process} answered ${response.status}`)
  return seriesOf(await response.text())
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g

/** The series of a text in the format of Prometheus 0.0.4. */
export function seriesOf(text: string): readonly Series[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name = '', labels = '', value = ''] = LINE.exec(line) ?? []
      if (name === '') throw new Error(`no series: ${line}`)
      const pairs = [...labels.matchAll(LABEL)].map(([, key = '', text = '']) => [key, text])
      return { name, labels: Object.fromEntries(pairs), value: Number(value) }
    })
}

/** The sum of the series of a name that have these labels; undefined if there are none. */
export function sumOf(
  series: readonly Series[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const found = series.filter(
    (one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value),
  )
  return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0)
}
