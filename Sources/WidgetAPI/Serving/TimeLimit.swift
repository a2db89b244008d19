/// Runs an operation with a time limit. Returns nil, and cancels the operation, if it takes longer.
func withTimeLimit<Value: Sendable>(
    _ limit: Duration, priority: TaskPriority? = nil, _ operation: @escaping @Sendable () async throws -> Value
) async throws -> Value? {
    try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask(priority: priority) { try await operation() }
        group.addTask {
            try await Task.sleep(for: limit)
            return nil
        }
        defer { group.cancelAll() }
        return try await group.next() ?? nil
    }
}
