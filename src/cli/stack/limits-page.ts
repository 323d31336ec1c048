/** Generates docs/reference/limits.md: the values of all limits, with what their comments say. */

import { readFileSync } from 'node:fs'
import { LIMITS, type LimitGroup } from '../../app/limits.ts'

/** A value of a `limits.ts`, or several of the same kind, such as `{ min: 40, max: 160 }`. */
interface Limit {
  /** Path in its file, such as `inlineCalls.timeoutMs`. */
  readonly name: string
  readonly value: number | string | LimitGroup
  /** The first words of its comment: `Bytes`, `Milliseconds`, or the plural of the things that it counts; empty if it is neither. */
  readonly unit: string
  /** First sentence of its comment, which names the limited thing. */
  readonly subject: string
  /** The rest of its comment: the effect at the limit. */
  readonly effect: string
}

export interface LimitsFile {
  readonly file: string
  /** First sentence of the file. */
  readonly title: string
  readonly limits: readonly Limit[]
  /** Names of values without a comment. */
  readonly undescribed: readonly string[]
}

export function readLimits(): LimitsFile[] {
  return Object.entries(LIMITS).map(([file, group]) => {
    const source = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
    const [, title = ''] = /^\/\*\* (.*?)\.(?: |\n)/.exec(source) ?? []
    const limits = describedIn(source).map(({ name, comment }) => limitOf(name, comment, group))
    const names = new Set(limits.map(({ name }) => name))
    return { file, title, limits, undescribed: valuesOf(group).filter((name) => !isDescribed(name, names)) }
  })
}

/** One line each: a comment, a property, or the end of a group, as the formatter writes them. */
const LINE = /^ *(?:\/\*\*(?<comment>[\s\S]*?)\*\/|(?<name>\w+): (?:(?<opens>\{\n)|.*\n)|(?<closes>\}),?\n)/gm

function describedIn(source: string): { name: string; comment: string }[] {
  const described: { name: string; comment: string }[] = []
  const groups: string[] = []
  let comment = ''
  for (const { groups: line = {} } of source.slice(source.indexOf('= {')).matchAll(LINE)) {
    if (line['comment'] !== undefined) comment = line['comment'].replaceAll(/\s+(\* )?/g, ' ').trim()
    else if (line['opens'] !== undefined) groups.push(line['name'] ?? '')
    else if (line['closes'] !== undefined) groups.pop()
    else if (comment !== '') described.push({ name: [...groups, line['name']].join('.'), comment })
    if (line['comment'] === undefined) comment = ''
  }
  return described
}

function limitOf(name: string, comment: string, group: LimitGroup): Limit {
  const [subject = '', ...effect] = comment.split(/(?<=\.) (?=[A-Z`])/)
  const value = name
    .split('.')
    .reduce<LimitGroup[string]>((part, key) => (part as LimitGroup)[key] ?? '', group)
  const [unit = ''] = /^(?:MiB|Share|Factor|Duration|(?:[A-Z]\w+ )?\w+s)\b/.exec(subject) ?? []
  return { name, value, unit, subject, effect: effect.join(' ') }
}

/** The names of all values, such as `relayPollMs.min`. */
function valuesOf(group: LimitGroup): string[] {
  return Object.entries(group).flatMap(([name, value]) =>
    typeof value === 'object' ? valuesOf(value).map((below) => `${name}.${below}`) : [name],
  )
}

/** A comment on values of the same kind describes all of them. */
const isDescribed = (name: string, described: ReadonlySet<string>) =>
  described.has(name) || described.has(name.replace(/\.\w+$/, ''))

const HEAD = `# Limits

The fixed limits of this version, by the part that has them. An operator changes [settings](config.md) and [quotas](../quotas.md) instead;
\`GET /v1/limits\` shows a caller its rate limits and the limits of its requests.
`

export function limitsPage(): string {
  const sections = readLimits().map(({ file, title, limits }) => {
    const rows = limits.map(
      ({ name, value, subject, effect }) => `| \`${name}\` | ${valueText(value)} | ${subject} ${effect} |`,
    )
    return `\n## ${title}\n\nDefined in \`src/${file}\`.\n\n| limit | value | unit, and what happens at the limit |\n|---|---|---|\n${rows.join('\n')}\n`
  })
  return `${HEAD}${sections.join('')}`
}

function valueText(value: Limit['value']): string {
  if (typeof value !== 'object') return String(value).replace(/\B(?=(\d{3})+$)/g, ',')
  return Object.entries(value)
    .map(([name, part]) => `${name} ${valueText(part)}`)
    .join(', ')
}
