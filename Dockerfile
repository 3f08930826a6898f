# crux with onnxruntime; EXTRAS=tvm,torch adds the other frameworks.
#
#   docker build -t crux .
#   docker run --rm -v "$PWD:/work" crux check model.onnx
FROM python:3.12-slim

# A C compiler gives crashes their native frames, and torch.compile its kernels.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc g++ libc6-dev \
    && rm -rf /var/lib/apt/lists/*

ARG EXTRAS=""
COPY pyproject.toml constraints.txt README.md LICENSE /opt/tensorcrux/
COPY corpus /opt/tensorcrux/corpus
COPY oracles /opt/tensorcrux/oracles
COPY reducer /opt/tensorcrux/reducer
COPY generators /opt/tensorcrux/generators
COPY triage /opt/tensorcrux/triage
COPY tensorcrux.py /opt/tensorcrux/tensorcrux.py
COPY tensorcrux-stubs /opt/tensorcrux/tensorcrux-stubs
RUN pip install --no-cache-dir --constraint /opt/tensorcrux/constraints.txt \
    "/opt/tensorcrux${EXTRAS:+[$EXTRAS]}"

RUN useradd --create-home crux
USER crux
WORKDIR /work
ENTRYPOINT ["crux"]
CMD ["--help"]
