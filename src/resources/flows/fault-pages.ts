/** Knows how a fault of the flow language is explained to people: one page for each code. */

import { DIAGNOSTICS, type DiagnosticCode } from '../../../flows-dsl/faults.ts'

/** A definition that is longer stands for its size alone. */
const SHOWN_MAX = 800

/** A section of Markdown: what the fault is, a definition that has it, and the same without it. */
export function faultPage(code: DiagnosticCode): string {
  const { title, explanation, example, fix } = DIAGNOSTICS[code]
  return `## ${code}\n\n${title}. ${explanation}\n\n${shown('This is at fault, where `¦` stands:', example)}\n${shown('This is not:', fix)}`
}

/** All of them, in the order of the table. */
export function allFaultPages(): string {
  const pages = (Object.keys(DIAGNOSTICS) as DiagnosticCode[]).map(faultPage)
  const head = `# Faults of flows\n\nWhat \`flow.validate\` and its like can find in a definition; \`code\` never changes its meaning. Warnings, which stop nothing, stand at the end.\n`
  return [head, ...pages].join('\n')
}

function shown(label: string, definition: string): string {
  if (definition.length > SHOWN_MAX) return `${label} (a definition of ${definition.length} characters)\n`
  return `${label}\n\n\`\`\`yaml\n${definition.trimEnd()}\n\`\`\`\n`
}
