"""ONNX Runtime: sessions that compute every operator as written, and runs whose outputs go to given memory."""

from __future__ import annotations

import os
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import Status, because

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.original import OriginalModel

_DEFAULT_DOMAINS = {"", "ai.onnx"}
_EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
# Errors are raised; their log lines would repeat them.
_FATAL_ONLY = 4
_SECONDS_BETWEEN_REPORTS = 0.1


class FedInput(Struct, frozen=True):
    """An input as it is fed: its codes, and the number of its element type in ONNX."""

    name: str
    element: int
    codes: AnyArray


class BoundOutput(Struct, frozen=True):
    """An output that is computed into given memory."""

    tensor: str
    element: int
    shape: Shape
    address: int


class TensorType(Struct, frozen=True):
    """Type of an output as the session states it, such as `tensor(float)`; `shape` is `None` if not all is known."""

    text: str
    shape: Shape | None


def import_runtime() -> Any:  # noqa: ANN401  ONNX Runtime is optional and untyped
    """Return the module of ONNX Runtime.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise UsageError(because("golden.needs_onnxruntime", Status.NOT_HERE)) from error
    return onnxruntime


def find_unknown_operators(
    operators: Iterable[tuple[str, str]], own_functions: frozenset[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    """Return domains and types that neither ONNX Runtime nor the model defines, sorted."""
    import_runtime()
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    known = {(_domain(schema.domain), schema.name) for schema in get_all_operator_schema()}
    known |= {(_domain(domain), name) for domain, name in own_functions}
    return tuple(sorted({(_domain(domain), name) for domain, name in operators} - known))


def _domain(name: str) -> str:
    return "" if name in _DEFAULT_DOMAINS else name


class Runner:
    """Sessions of one model with given inputs, computed by up to `threads` threads; 0 for all cores."""

    def __init__(
        self, inputs: Sequence[FedInput], dimensions: Mapping[str, int], libraries: Sequence[str], threads: int = 0
    ) -> None:
        self._runtime = import_runtime()
        self._threads = threads
        self._inputs = inputs
        self._dimensions = dimensions
        self._libraries = libraries

    @property
    def engine(self) -> str:
        """Name and version of the engine."""
        return f"onnxruntime {self._runtime.__version__}"

    def open_session(self, model: OriginalModel, data: bytes, *, frees_early: bool = False) -> Session:
        """Return a session without optimizations, so that every node is computed as written.

        Args:
            model: the model.
            data: its bytes, with outputs and nodes added.
            frees_early: order operators so that outputs become final, and memory is freed, as early as possible.

        Raises:
            InputError: ONNX Runtime refuses the model.
        """
        runtime = self._runtime
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = _FATAL_ONLY
        options.intra_op_num_threads = self._threads
        options.add_session_config_entry(_EXTERNAL_FOLDER, model.folder)
        if frees_early:
            options.execution_order = runtime.ExecutionOrder.PRIORITY_BASED
        for name, extent in self._dimensions.items():
            options.add_free_dimension_override_by_name(name, extent)
        for library in self._libraries:  # their code is executed
            with _named_errors(library, "golden.cannot_load_library"):
                options.register_custom_ops_library(os.path.abspath(library))
        with _named_errors(model.path, "golden.cannot_load_model"):
            session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        return Session(model.path, session, self._inputs)


class Session(Struct, frozen=True):
    """An opened model with its inputs; `path` is named in errors."""

    path: str
    session: Any
    inputs: Sequence[FedInput]

    def output_types(self) -> dict[str, TensorType]:
        """Return the types of the outputs, and their shapes where the session knows them."""
        found = {}
        for output in self.session.get_outputs():
            dims = output.shape
            # An empty list is a scalar or a tensor of unknown rank.
            is_known = bool(dims) and all(isinstance(dim, int) and dim >= 0 for dim in dims)
            found[output.name] = TensorType(output.type, tuple(dims) if is_known else None)
        return found

    def run(self, tensors: Sequence[str], *, is_short: bool = False) -> list[AnyArray]:
        """Run and return some of the outputs; a short run needs no thread, and Ctrl-C waits for its end."""
        binding = self._binding()
        for name in tensors:
            binding.bind_output(name, "cpu")
        if is_short:
            with _named_errors(self.path, "golden.run_failed"):
                self.session.run_with_iobinding(binding)
        else:
            self._run(binding, lambda: None)
        return [value.numpy() for value in binding.get_outputs()]

    def run_into(self, outputs: Sequence[BoundOutput], report: Callable[[], None]) -> None:
        """Run and write outputs to given addresses; `report` is called now and then."""
        binding = self._binding()
        for output in outputs:
            binding.bind_output(output.tensor, "cpu", 0, output.element, list(output.shape), output.address)
        self._run(binding, report)

    def _binding(self) -> Any:  # noqa: ANN401  untyped
        binding = self.session.io_binding()
        make_value = import_runtime().OrtValue.ortvalue_from_numpy_with_onnx_type
        for item in self.inputs:
            binding.bind_ortvalue_input(item.name, make_value(item.codes, item.element))
        return binding

    def _run(self, binding: Any, report: Callable[[], None]) -> None:  # noqa: ANN401  untyped
        """Run in a thread, so that Ctrl-C ends the run."""
        options = import_runtime().RunOptions()
        failures: list[BaseException] = []
        done = Event()

        def work() -> None:
            try:
                self.session.run_with_iobinding(binding, options)
            except _runtime_errors() as error:
                failures.append(error)
            finally:
                done.set()

        thread = Thread(target=work, name="onnxruntime")
        thread.start()
        try:
            while not done.wait(_SECONDS_BETWEEN_REPORTS):
                report()
        except BaseException:
            options.terminate = True
            raise
        finally:
            thread.join()
        with _named_errors(self.path, "golden.run_failed"):
            for error in failures:
                raise error


@contextmanager
def _named_errors(path: str, code: str) -> Iterator[None]:
    """Raise errors of ONNX Runtime as errors of a file: the first line of the message, without its number."""
    try:
        yield
    except _runtime_errors() as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(path, because(code, error=lines[0].removeprefix("[ONNXRuntimeError] : "))) from error


def _runtime_errors() -> tuple[type[Exception], ...]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    own = [item for item in vars(state).values() if isinstance(item, type) and issubclass(item, Exception)]
    return (*own, RuntimeError, ValueError)
