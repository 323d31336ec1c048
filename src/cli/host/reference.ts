/** Writes docs/reference from the code, or checks that it is what the code says. */

import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { flowSchema } from '../../api/docs.ts'
import { openApi } from '../../api/openapi.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { PROBLEMS } from '../../core/problem.ts'
import { describeConfig } from '../../platform/config.ts'
import { diagnosticDocs } from '../../resources/flows/simulate.ts'
import { OPERATIONS } from '../../resources/index.ts'
import { conformancePage } from './conformance.ts'

const FOLDER = new URL('../../../docs/reference/', import.meta.url)

/** File name → content: everything that is derived. */
export function referenceFiles(): Readonly<Record<string, string>> {
  return {
    'openapi.json': `${JSON.stringify(openApi(OPERATIONS), null, 2)}\n`,
    'flow-schema.json': flowSchema(),
    'policy.txt': policy(OPERATIONS),
    'problems.md': problems(),
    'flow-faults.md': diagnosticDocs(),
    'flow-conformance.md': conformancePage(),
    'config.md': config(),
  }
}

/** @returns the exit code: with `check`, 1 where a file differs */
export async function reference(options: { check?: boolean }): Promise<number> {
  await mkdir(FOLDER, { recursive: true })
  const stale: string[] = []
  for (const [name, text] of Object.entries(referenceFiles())) {
    const file = new URL(name, FOLDER)
    if ((await readFile(file, 'utf8').catch(() => '')) === text) continue
    stale.push(name)
    if (!options.check) await writeFile(file, text)
  }
  if (options.check && stale.length > 0)
    process.stderr.write(`docs/reference is stale: ${stale.join(', ')}\n`)
  return options.check && stale.length > 0 ? 1 : 0
}

/** Who may do what, a line per operation, for people to read in a diff. */
function policy(operations: readonly AnyOperation[]): string {
  const lines = operations.map((operation) => {
    const { name, http, domain, roles, stability } = operation
    return [
      name.padEnd(22),
      http.method.padEnd(6),
      http.path.padEnd(66),
      domain.padEnd(16),
      roles.join(',').padEnd(37),
      scopesOf(operation).padEnd(32),
      stability,
    ].join(' ')
  })
  return `${lines.sort().join('\n')}\n`
}

/** What a narrowed key needs: `[+…]` where only some inputs need more. */
function scopesOf({ requiredScope = '-', alsoNeeds }: AnyOperation): string {
  return alsoNeeds === undefined ? requiredScope : `${requiredScope}[+${alsoNeeds.scope}]`
}

function problems(): string {
  const rows = Object.entries(PROBLEMS).map(
    ([code, { status, title, help }]) => `| \`${code}\` | ${status} | ${title} | ${help} |`,
  )
  return `# Problems\n\nEvery error is \`application/problem+json\` (RFC 9457); \`code\` never changes its meaning.\n\n| code | status | title | help |\n|---|---|---|---|\n${rows.join('\n')}\n`
}

function config(): string {
  const rows = describeConfig().map(
    ({ name, default: value, description }) =>
      `| \`${name}\` | ${value && `\`${value}\``} | ${description} |`,
  )
  return `# Settings\n\nRead from the environment, once, by the API and the worker.\n\n| name | default | what |\n|---|---|---|\n${rows.join('\n')}\n`
}
