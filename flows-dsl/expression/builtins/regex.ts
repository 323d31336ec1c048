import type { Expression } from '../expression.ts'
export function faultOfRegex(_name: string, _args: readonly Expression[]): string | undefined {
  return undefined
}
