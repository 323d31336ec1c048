/** The functions of a workspace in an archive, and behind them their versions. Triggers start nothing until somebody resumes them. */

import {
  allFunctions,
  allFunctionVersions,
  FunctionLine,
  FunctionVersionLine,
  restoreFunction,
  restoreFunctionVersion,
} from '../../functions/functions-transfer.ts'
import { jsonOf } from '../format/layout.ts'
import { readLines } from '../format/reader.ts'
import { counted, inMember, type Part } from '../part.ts'
import { pausedTriggers } from '../paused-triggers.ts'

const readFunction = jsonOf(FunctionLine)
const readVersion = jsonOf(FunctionVersionLine)

export const FUNCTIONS: Part = {
  folders: ['functions', 'function-versions'],

  async *write(writer, { structure }) {
    yield* writer.lines('functions', allFunctions(structure))
    const versions = async function* () {
      for await (const { id } of allFunctions(structure)) {
        writer.count('functions')
        for await (const version of allFunctionVersions(structure, id)) {
          writer.count('function_versions')
          yield version
        }
      }
    }
    yield* writer.lines('function-versions', versions())
  },

  async read(into, member) {
    const { admin, ref, newIdOf, counts } = into
    for await (const line of readLines(member)) {
      if (member.folder === 'functions') {
        const one = readFunction(line, member.name)
        const declaredAs = pausedTriggers(into, `the function ${one.name}`, one.id)
        await inMember(into, member, () => restoreFunction(admin, one, { ref, newIdOf, declaredAs }))
        counted(counts, 'functions')
      } else {
        const version = readVersion(line, member.name)
        await inMember(into, member, () => restoreFunctionVersion(admin, version, { ref, newIdOf }))
        counted(counts, 'function_versions')
      }
    }
  },
}
