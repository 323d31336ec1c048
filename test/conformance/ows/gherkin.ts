/**
 * Parses the conformance features of the Open Workflow Specification: the subset of Gherkin that they use.
 */

export interface Step {
  /** The text without its keyword. */
  readonly text: string
  readonly block?: string
}

export interface Scenario {
  readonly name: string
  readonly steps: readonly Step[]
}

const STEP = /^(?:Given|When|Then|And|But)\s+(.*)$/

/** The scenarios of a feature. @throws Error for an unexpected line */
export function readFeature(text: string): readonly Scenario[] {
  const scenarios: { name: string; steps: { text: string; block?: string }[] }[] = []
  const lines = text.split(/\r?\n/)
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]?.trim() ?? ''
    const name = /^Scenario:\s*(.*)$/.exec(line)?.[1]
    const step = STEP.exec(line)?.[1]
    const current = scenarios.at(-1)
    if (name !== undefined) scenarios.push({ name, steps: [] })
    else if (current !== undefined && step !== undefined) current.steps.push({ text: step })
    else if (current !== undefined && line.startsWith('"""')) {
      const end = lines.findIndex((one, index) => index > at && one.trim() === '"""')
      const last = current.steps.at(-1)
      if (end < 0 || last === undefined) throw new Error(`A block has no end, or no step: line ${at + 1}`)
      last.block = withoutMargin(lines.slice(at + 1, end), lines[at] ?? '')
      at = end
    } else if (current !== undefined && line !== '' && !line.startsWith('#')) {
      throw new Error(`No step: ${line}`)
    }
  }
  return scenarios
}

/** The margin is that of the quotes. */
function withoutMargin(lines: readonly string[], quotes: string): string {
  const margin = quotes.length - quotes.trimStart().length
  return lines.map((line) => line.slice(Math.min(margin, line.length - line.trimStart().length))).join('\n')
}
